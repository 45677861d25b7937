//! The answer to a measurement: the numbers, and all that alone moves such numbers severalfold.

use super::client_options::ClientOptions;
use super::place::current_cpu;
use super::record::Record;
use super::session::{Ends, Served};
use crate::Answer;

/// Transactions, with the latency of each.
pub(super) fn transactions(
    asked: &ClientOptions,
    record: &Record,
    ends: &Ends,
    served: Option<Served>,
) -> Answer {
    let mut answer = begun(asked, record, ends, served.as_ref());
    let count = record.latencies.count();
    answer.whole("request_bytes", asked.handshake.request as u64);
    answer.whole("response_bytes", asked.handshake.response as u64);
    answer.truth("is_polling", asked.handshake.is_polling);
    answer.whole("transactions", count);
    answer.number("transactions_per_s", per_second(count, record));
    answer.whole("lost_count", record.lost_count);
    if let Some(rate) = asked.rate {
        answer.number("rate_asked_per_s", rate);
        answer.whole("due_count", record.due_count);
        answer.whole("sent_count", record.sent_count);
        let seconds = record.until.since(record.began).seconds();
        answer.number("rate_sent_per_s", record.sent_count as f64 / seconds);
        let missing = record.due_count.saturating_sub(count);
        answer.number("rate_shortfall_ratio", missing as f64 / record.due_count as f64);
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let delay = record.delays.quantile(share);
            delay.into_iter().for_each(|it| answer.whole(&format!("send_delay_{name}_ns"), it));
        }
    }
    answer.number("client_cpu_ns_per_transaction", record.cpu_ns as f64 / count as f64);
    if let Some(served) = served {
        answer.number("server_cpu_ns_per_transaction", served.cpu_ns as f64 / served.count as f64);
    }
    answer.pairs("worst_begin_and_latency_ns", record.worst.list());
    answer.histogram(&record.latencies);
    answer
}

/// Bytes that went through.
pub(super) fn stream(
    asked: &ClientOptions,
    record: &Record,
    bytes: u64,
    ends: &Ends,
    served: Served,
) -> Answer {
    let mut answer = begun(asked, record, ends, Some(&served));
    answer.whole("message_bytes", asked.handshake.request as u64);
    answer.whole("bytes", bytes);
    answer.number("bytes_per_s", per_second(bytes, record));
    answer.number("client_cpu_ns_per_kib", record.cpu_ns as f64 / (bytes as f64 / 1024.0));
    answer.number("server_cpu_ns_per_kib", served.cpu_ns as f64 / (bytes as f64 / 1024.0));
    answer
}

/// Datagrams that were sent, and those that arrived.
pub(super) fn datagrams(
    asked: &ClientOptions,
    record: &Record,
    sent_bytes: u64,
    ends: &Ends,
    served: Served,
) -> Answer {
    let mut answer = begun(asked, record, ends, Some(&served));
    let sent = sent_bytes / asked.handshake.request as u64;
    answer.whole("message_bytes", asked.handshake.request as u64);
    answer.truth("is_gso", asked.handshake.is_gso);
    answer.whole("sent_count", sent);
    answer.number("sent_per_s", per_second(sent, record));
    // A warm-up's datagrams are among those that arrived; so their share is told of all.
    if asked.warm_up.is_none() {
        answer.whole("received_count", served.count);
        answer.number("received_per_s", per_second(served.count, record));
        answer.number("received_bytes_per_s", per_second(served.bytes, record));
        answer.number("lost_ratio", 1.0 - served.count as f64 / sent as f64);
    }
    answer.number("client_cpu_ns_per_datagram", record.cpu_ns as f64 / sent as f64);
    answer.number("server_cpu_ns_per_datagram", served.cpu_ns as f64 / served.count as f64);
    answer
}

/// Begins an answer with the state of both ends.
fn begun(asked: &ClientOptions, record: &Record, ends: &Ends, served: Option<&Served>) -> Answer {
    let mut answer = Answer::of(asked.handshake.kind.word());
    answer.whole("time_ns", record.took_ns);
    answer.whole("socket_count", asked.handshake.sockets as u64);
    if !asked.handshake.kind.is_udp() {
        answer.truth("is_nodelay", asked.handshake.is_nodelay);
    }
    let Ends { client, server } = ends;
    answer.text("placement", &client.with_server(server));
    answer.text("waiting", if asked.handshake.is_polling { "polling" } else { "blocking" });
    answer.text("offloads", &both(&client.offloads, &server.offloads));
    answer.text("idle", &both(&client.idle, &server.idle));
    answer.text("client_cpus", &client.cpus);
    answer.whole("client_cpu_last", current_cpu());
    answer.text("server_cpus", &server.cpus);
    if let Some(served) = served {
        answer.whole("server_cpu_last", served.cpu);
    }
    answer.truth("is_one_kernel", client.is_with(server));
    answer
}

/// Returns what is the same at both ends once, and else both.
fn both(client: &str, server: &str) -> String {
    if client == server { client.to_owned() } else { format!("client {client}, server {server}") }
}

fn per_second(count: u64, record: &Record) -> f64 {
    count as f64 * 1e9 / record.took_ns as f64
}
