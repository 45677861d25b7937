//! Finds the word that was probably meant, for errors about words that are not known.

/// The candidate nearest to `word`, if any is near enough to be a likely slip of the fingers.
///
/// Near is a Damerau-Levenshtein distance of at most a third of the longer word (at least 1), or
/// one being the beginning of the other, from three letters on.
///
/// ```
/// use surtax::layer::nearest;
/// assert_eq!(nearest("qmeu", ["native", "qemu"]), Some("qemu"));
/// assert_eq!(nearest("xen", ["native", "qemu"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    all_nearest(word, candidates).first().copied()
}

/// The candidates that are as near to `word` as the nearest one; first those that it begins.
fn all_nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let mut near: Vec<(usize, bool, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let longer = word.chars().count().max(candidate.chars().count());
            let distance = strsim::damerau_levenshtein(&word, candidate);
            let begins = word.len() >= 3
                && candidate.len() >= 3
                && (candidate.starts_with(&word) || word.starts_with(candidate));
            let is_near = distance <= (longer / 3).max(1) || begins;
            is_near.then_some((distance, !candidate.starts_with(&word), candidate))
        })
        .collect();
    near.sort_unstable();
    let least = near.first().map(|(distance, ..)| *distance);
    near.retain(|(distance, ..)| Some(*distance) == least);
    near.dedup();
    near.into_iter().map(|(.., candidate)| candidate).collect()
}

/// The hint about a word that is not known: the nearest ones, and all that are.
///
/// `what` names them all, as in "layers" or "options of `qemu`".
pub fn instead<'a>(word: &str, what: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    let valid: Vec<&str> = valid.into_iter().collect();
    let list = |words: &[&str]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
    let all = list(&valid).join(", ");
    match list(&all_nearest(word, valid.iter().copied())).as_slice() {
        [] if valid.is_empty() => format!("leave it out; there are no {what}"),
        [] => format!("use one of the {what}: {all}"),
        [near] => format!("use {near}; the {what} are {all}"),
        [near @ .., last] => format!("use {} or {last}; the {what} are {all}", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::layer::nearest::*;

    #[test]
    fn a_slip_of_two_fingers_is_understood_and_another_word_is_not() {
        let kinds = ["native", "runc", "crun", "gvisor", "docker", "qemu"];
        for (typed, meant) in [
            ("dokcer", Some("docker")),
            ("Qemu", Some("qemu")),
            ("nativ", Some("native")),
            ("gvisr", Some("gvisor")),
            ("runsc", Some("runc")),
            ("hyperv", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, kinds), meant, "{typed}");
        }
    }

    #[test]
    fn all_that_are_as_near_are_named_and_first_what_the_word_begins() {
        let hint = instead("run", "layers", ["native", "crun", "krun", "runc"]);
        assert!(
            hint.starts_with("use `runc`, `crun` or `krun`; the layers are `native`"),
            "{hint}"
        );
        assert_eq!(nearest("run", ["crun", "runc"]), Some("runc"));
    }

    #[test]
    fn a_beginning_is_enough_from_three_letters_on() {
        assert_eq!(nearest("accelerator", ["accel", "machine"]), Some("accel"));
        assert_eq!(nearest("mem", ["memory", "machine"]), Some("memory"));
    }
}
