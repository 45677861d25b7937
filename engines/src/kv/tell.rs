//! The answer to a measurement: the numbers, and all that alone moves such numbers severalfold.

use super::client_options::{ClientOptions, Pace};
use super::keys::Keys;
use super::measure::Measured;
use super::search::SearchResult;
use crate::{Answer, cpu};
use surtax_instrument::quantity::Nanoseconds;

/// All of it.
pub(super) fn answer(
    asked: &ClientOptions,
    keys: &Keys,
    measured: &Measured,
    rate: Option<f64>,
) -> Answer {
    let record = &measured.record;
    let mut answer = Answer::of("kv");
    answer.text("protocol", asked.protocol.name());
    answer.text("server_version", &measured.state.version);
    measured.state.threads.into_iter().for_each(|it| answer.whole("server_thread_count", it));
    answer.whole("time_ns", record.until.since(record.began).0);
    for (key, count) in [
        ("connection_count", asked.connections),
        ("depth", asked.depth),
        ("thread_count", asked.threads),
    ] {
        answer.whole(key, count as u64);
    }
    answer.text("waiting", if asked.is_polling { "polling" } else { "blocking" });
    answer.text("client_cpus", &cpus());
    answer.whole("key_count", keys.count().into());
    answer.whole("data_bytes", keys.bytes());
    answer.whole("updates_asked", asked.updates.sets.into());
    answer.whole("reads_asked", asked.updates.gets.into());

    let all = record.all();
    let count = all.count() + all.outside_count();
    answer.whole("transactions", count);
    answer.number("transactions_per_s", record.rate());
    answer.number("received_bytes_per_s", record.received_bytes as f64 / record.seconds());
    answer.whole("hit_count", record.hit_count);
    answer.whole("miss_count", record.miss_count);
    answer.whole("wrong_count", record.wrong_count);
    answer.whole("refused_count", record.refused_count);
    record.refusal.iter().for_each(|why| answer.text("refused_why", why));
    answer.whole("lost_count", record.lost_count);
    answer.whole("evicted_count", measured.evictions);
    if let Some(rate) = rate {
        answer.number("rate_asked_per_s", rate);
        answer.whole("due_count", record.due_count);
        answer.whole("sent_count", record.sent_count);
        answer.number("rate_sent_per_s", record.sent_count as f64 / record.seconds());
        answer.number("rate_shortfall_ratio", record.shortfall());
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let delay = record.delays.quantile(share);
            delay.into_iter().for_each(|it| answer.whole(&format!("send_delay_{name}_ns"), it));
        }
    }
    answer.number("client_cpu_ns_per_transaction", record.cpu_ns as f64 / count as f64);
    answer.number("server_cpu_ns_per_transaction", measured.server_cpu_ns as f64 / count as f64);
    for (kind, latencies) in [("read", &record.reads), ("update", &record.updates)] {
        answer.whole(&format!("{kind}_count"), latencies.count());
        answer.quantiles(&format!("{kind}_"), latencies);
    }
    answer.pairs("worst_begin_and_latency_ns", record.worst.list());
    answer.histogram(&all);
    answer
}

/// Adds the findings of a search, beside the numbers at its rate.
pub(super) fn search(answer: &mut Answer, asked: &ClientOptions, found: &SearchResult) {
    let Pace::Search(limit) = asked.pace else { return };
    answer.text("limit_quantile", limit.name);
    answer.whole("limit_ns", Nanoseconds::from(limit.most).0);
    answer.number("rate_found_per_s", found.rate);
    answer.number("rate_peak_per_s", found.peak);
    answer.pairs("tried_rate_and_quantile_ns", found.tried.iter().copied());
}

/// The CPUs that this end may use.
fn cpus() -> String {
    let numbers = cpu::allowed().unwrap_or_default();
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
