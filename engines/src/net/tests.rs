//! Tests of what is refused before anybody is called, and of what both ends say of a deal.

use super::Kind;
use super::client_options::Handshake;
use super::cpu_request::CpuRequest;
use proptest::prelude::*;
use std::time::Duration;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let refused = |line: &str| crate::run(&words(line)).unwrap_err();
    for (line, what) in [
        ("tcp_rr", "nobody says where the other side is"),
        ("tcp_rr --connect host:1", "`host:1` is no address with a port"),
        ("tcp_rr --connect 127.0.0.1:1 --rate fast", "`--rate fast` is no number"),
        ("tcp_rr --connect 127.0.0.1:1 --nodelay maybe", "`--nodelay maybe` is neither"),
        ("tcp_rr --connect 127.0.0.1:1 --echo --response 2", "an echo answers with what"),
        ("udp_rr --connect 127.0.0.1:1 --rate 5", "several datagrams on their way"),
        (
            "udp_stream --connect 127.0.0.1:1 --message 70000",
            "`--message 70000` is no whole number",
        ),
        ("tcp_stream --connect 127.0.0.1:1 --rate 5", "`tcp_stream` takes no `--rate`"),
        ("tcp_rr --connect 127.0.0.1:1 --place near", "`--place near` says nothing about"),
        ("tcp_rr --connect 127.0.0.1:1 --echo --place 0/1", "an echo does not let its CPU"),
        ("tcp_rr --connect 127.0.0.1:1 --poll perhaps", "`--poll perhaps` is neither"),
        ("serve --listen nowhere", "`nowhere` is no address with a port"),
    ] {
        let refused = refused(line);
        assert!(refused.is_users && refused.what.starts_with(what), "{line}: {refused}");
    }
}

proptest! {
    #[test]
    fn a_deal_is_read_as_it_was_written(
        kind in 0_usize..6, lengths in (1_usize..=16 << 20, 1_usize..=16 << 20), sockets in 1_usize..=256,
        flags in any::<[bool; 3]>(), place in "free|apart|together|[0-9]{1,4}/any|any/[0-9]{1,4}", nanoseconds in 1_u64..1 << 60,
    ) {
        let handshake = Handshake {
            kind: Kind::ALL[kind],
            request: lengths.0,
            response: lengths.1,
            sockets,
            is_nodelay: flags[0],
            is_polling: flags[1],
            is_gso: flags[2],
            cpu_request: CpuRequest::parse(&place).unwrap(),
            patience: Duration::from_nanos(nanoseconds),
        };
        prop_assert_eq!(Handshake::parse(&handshake.to_string()), Some(handshake));
    }

    #[test]
    fn no_words_at_all_make_a_server_do_more_than_it_may(line in "[a-z_0-9 ]{0,60}") {
        if let Some(handshake) = Handshake::parse(&line) {
            prop_assert!(handshake.request <= 16 << 20 && handshake.response <= 16 << 20 && handshake.sockets <= 256);
        }
    }
}
