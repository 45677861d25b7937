//! Proof of a published port: the destination NAT of its bridge.

use crate::fault::Fault;
use crate::lab;
use crate::layer::WorkloadNetwork;
use crate::layer::publish::Port;
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// The programs that print the rules of a network namespace, for either of the kernel's two ways to
/// have them.
const PRINTERS: [&[&str]; 2] = [&["iptables-save", "-t", "nat"], &["nft", "list", "ruleset"]];

/// Time limit of one of these programs.
const PRINT_DEADLINE: Duration = Duration::from_secs(10);

/// Proves that the rules of the outside's network namespace lead from the port to the workload.
///
/// # Errors
/// The machine's: none does.
pub(super) fn prove(port: Port, network: &WorkloadNetwork) -> Result<Fact, Fault> {
    let namespace = format!("--net={}", network.namespace.display());
    let workload = network.workload.map_or_else(String::new, |address| address.to_string());
    let there = PRINTERS.into_iter().filter(|words| lab::find(words[0]).is_some());
    proof(port, &workload, there, |printer| {
        let words = ["nsenter", &namespace].into_iter().chain(printer.iter().copied());
        let argv: Vec<String> = words.map(str::to_owned).collect();
        lab::ask(&argv, None, PRINT_DEADLINE)
    })
}

/// Asks one of these programs after the other until one shows such a rule. That one of them fails
/// says nothing of what another knows.
fn proof<'a>(
    port: Port,
    workload: &str,
    printers: impl Iterator<Item = &'a [&'a str]>,
    ask: impl Fn(&[&str]) -> Result<String, Fault>,
) -> Result<Fact, Fault> {
    let mut failures = Vec::new();
    for printer in printers {
        match ask(printer) {
            Ok(rules) if is_translated(port, &rules, workload) => {
                return Ok(Fact::new("published_port", port.word(), printer.join(" ")));
            }
            Ok(_) => {}
            Err(fault) => failures.push(fault.message),
        }
    }
    let word = port.word();
    if failures.is_empty() {
        return Err(Fault::machine(format!(
            "the port {word} was to be published, and no rule leads from there to `{workload}`"
        ))
        .hint("install `iptables` or `nft`, which print the rules"));
    }
    Err(Fault::machine(format!(
        "the port {word} was to be published, and none of the rules that could be read leads to \
         `{workload}`: {}",
        failures.join("\n")
    )))
}

/// Tells whether one of these rules is the destination NAT of this port.
fn is_translated(port: Port, rules: &str, workload: &str) -> bool {
    let Port { number, protocol } = port;
    let (port, target) = (number.to_string(), format!("{workload}:{number}"));
    rules.lines().any(|rule| {
        let words: Vec<&str> = rule.split_whitespace().collect();
        let is_of = |flags: &[&str]| {
            words.windows(2).any(|pair| flags.contains(&pair[0]) && pair[1] == port)
        };
        words.contains(&protocol)
            && is_of(&["--dport", "dport"])
            && words.contains(&target.as_str())
            && words.iter().any(|word| word.eq_ignore_ascii_case("dnat"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_in_the_words_of_either_program() {
        let port = Port { number: 80, protocol: "tcp" };
        let rules = "-A CNI-DN-2f -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.89.0.2:80";
        assert!(is_translated(port, rules, "10.89.0.2"));
        assert!(is_translated(port, "\t\ttcp dport 80 dnat to 10.89.0.2:80", "10.89.0.2"));
        assert!(!is_translated(port, rules, "10.89.0.20"));
        assert!(!is_translated(port, &rules.replace("--dport 80", "--dport 8080"), "10.89.0.2"));
        assert!(!is_translated(port, &rules.replace("tcp", "udp"), "10.89.0.2"));
        assert!(!is_translated(port, "-A CNI-HOSTPORT-SETMARK -p tcp --dport 80 -j MARK", ""));
    }

    #[test]
    fn a_program_that_fails_does_not_hide_what_another_one_knows() {
        let port = Port { number: 80, protocol: "tcp" };
        let asked = |answers: [Result<&str, &str>; 2]| {
            proof(port, "10.89.0.2", PRINTERS.into_iter(), |printer| {
                let [of_iptables, of_nft] = answers;
                let answer = if printer[0] == "nft" { of_nft } else { of_iptables };
                answer.map(String::from).map_err(Fault::machine)
            })
        };
        let rule = "tcp dport 80 dnat to 10.89.0.2:80";
        for answers in [[Err("no nat"), Ok(rule)], [Ok(""), Ok(rule)]] {
            assert_eq!(asked(answers).unwrap().source, "nft list ruleset");
        }
        assert_eq!(asked([Ok(rule), Err("no nft")]).unwrap().source, "iptables-save -t nat");
        let fault = asked([Err("no nat"), Err("no nft")]).unwrap_err();
        assert!(fault.message.ends_with("`10.89.0.2`: no nat\nno nft"), "{fault}");
        assert!(asked([Err("no nat"), Ok("")]).unwrap_err().message.ends_with(": no nat"));
        assert!(asked([Ok(""), Ok("")]).unwrap_err().hint.is_some());
    }
}
