//! The registry holds together, and a bar says what it means.

use super::*;

#[test]
fn every_proof_has_a_name_of_its_own_and_something_to_do() {
    let names: std::collections::BTreeSet<_> = REGISTRY.iter().map(|proof| proof.name).collect();
    assert_eq!(names.len(), REGISTRY.len());
    for proof in REGISTRY {
        let (quick, full) = (proof.run_count(Size::Quick), proof.run_count(Size::Full));
        assert!(0 < quick && quick <= full, "{}: {quick} and {full}", proof.name);
        assert!(!proof.summary.is_empty());
    }
}

#[test]
fn a_bar_holds_what_it_says() {
    assert!(Bar::AtMost(3).holds(3) && !Bar::AtMost(3).holds(4));
    assert!(Bar::AtLeast(3).holds(3) && !Bar::AtLeast(3).holds(2));
    assert!(Bar::Within(1, 3).holds(1) && !Bar::Within(1, 3).holds(0));
    assert!(!Bar::Within(1, 3).holds(4) && Bar::Shown.holds(9));
    assert_eq!(Bar::Within(1, 3).to_string(), "1 to 3");
}
