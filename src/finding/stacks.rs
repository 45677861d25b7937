//! Sets of stacks in words: by name where they are few, and otherwise by what they have in common.
//!
//! A list of twenty names says less than "every stack but `a`": whoever reads it must compare it
//! with the plan to see what it is.

use crate::finding::ArmFindings;
use std::collections::BTreeSet;
use std::fmt;

/// As many stacks are named one by one.
pub(crate) const FEW: usize = 4;

/// Of more than these that have nothing in common only the first are named: which they are was a
/// matter of chance.
const NAMED_MAX: usize = 8;

/// Name of a set whose stacks are all that no other set has.
pub(crate) const OTHERS: &str = "the others";

/// The stacks that a set is taken from, in the order of the plan.
#[derive(Clone, Debug)]
pub(crate) struct Stacks<'a> {
    names: Vec<&'a str>,
}

/// A set of stacks: in words, and by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Those {
    words: String,
    pub(crate) names: Vec<String>,
}

impl fmt::Display for Those {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl<'a> Stacks<'a> {
    /// Those of these arms; the two arms of the baseline are one stack.
    pub(crate) fn of(arms: impl IntoIterator<Item = &'a ArmFindings>) -> Self {
        Self { names: once(arms.into_iter().map(|arm| arm.stack.as_str())) }
    }

    /// Those of which a trial counts: the others have nothing that could be said of them.
    pub(crate) fn counted(arms: &'a [ArmFindings]) -> Self {
        Self::of(arms.iter().filter(|arm| arm.trial_count > 0))
    }

    /// Tells whether the set has them all.
    pub(crate) fn are_all(&self, set: &BTreeSet<&str>) -> bool {
        self.names.iter().all(|name| set.contains(name))
    }

    /// A set of them: `every stack but `a``, or with so few all by name.
    pub(crate) fn words(&self, set: &BTreeSet<&str>) -> String {
        let is_in = |name: &&&str| set.contains(**name);
        let (these, others): (Vec<&str>, Vec<&str>) = self.names.iter().partition(is_in);
        let strangers = set.iter().filter(|name| !these.contains(name)).copied();
        let these: Vec<&str> = these.iter().copied().chain(strangers).collect();
        if others.is_empty() && these.len() > 1 {
            return String::from("every stack");
        }
        if these.len() <= FEW {
            return named(these);
        }
        if others.len() <= FEW && others.len() < these.len() {
            return format!("every stack but {}", named(others));
        }
        self.in_common(&these)
    }

    /// The stacks of some arms; `None` of none.
    pub(crate) fn those<'s>(
        &self,
        arms: impl IntoIterator<Item = &'s ArmFindings>,
    ) -> Option<Those> {
        let set: BTreeSet<&str> = arms.into_iter().map(|arm| arm.stack.as_str()).collect();
        let names = || set.iter().map(|name| (*name).to_owned()).collect();
        (!set.is_empty()).then(|| Those { words: self.words(&set), names: names() })
    }

    /// The stacks of some arms, as [`words`](Self::words) has them; `None` of none.
    pub(crate) fn words_of<'s>(
        &self,
        arms: impl IntoIterator<Item = &'s ArmFindings>,
    ) -> Option<String> {
        let set: BTreeSet<&str> = arms.into_iter().map(|arm| arm.stack.as_str()).collect();
        (!set.is_empty()).then(|| self.words(&set))
    }

    /// Groups what is said of them, each with the stacks of which it is, in words.
    pub(crate) fn by_words<W: PartialEq>(
        &self,
        said: impl IntoIterator<Item = (&'a str, W)>,
    ) -> impl Iterator<Item = (W, String)> {
        by_words(said).into_iter().map(|(words, stacks)| (words, self.words(&stacks)))
    }

    /// Sets that have no stack in common, each in words: the largest, where it is of many and they
    /// are all together, as `the others`.
    pub(crate) fn apart<'s>(
        &self,
        sets: impl IntoIterator<Item = &'s BTreeSet<&'s str>>,
    ) -> Vec<String> {
        let sets: Vec<&BTreeSet<&str>> = sets.into_iter().collect();
        let told: BTreeSet<&str> = sets.iter().flat_map(|set| set.iter()).copied().collect();
        let most = sets.iter().map(|set| set.len()).max().filter(|most| *most > FEW);
        let usual = sets.iter().position(|set| Some(set.len()) == most);
        let usual = usual.filter(|_| sets.len() > 1 && self.are_all(&told));
        let words = |(place, set): (usize, &&BTreeSet<&str>)| match usual == Some(place) {
            true => String::from(OTHERS),
            false => self.words(set),
        };
        sets.iter().enumerate().map(words).collect()
    }

    /// Says what stacks have, where many have the same or all something else:
    /// `` `a` and `b` had 1, `c` had 2 ``.
    pub(crate) fn with_numbers<N: Copy + PartialOrd>(
        &self,
        verb: &str,
        found: &[(&str, N)],
        shown: impl Fn(N) -> String,
    ) -> String {
        let groups = by_words(found.iter().map(|(stack, number)| (*stack, shown(*number))));
        let numbers = || found.iter().map(|(_, number)| *number);
        let least = numbers().reduce(|one, other| if other < one { other } else { one });
        let most = numbers().reduce(|one, other| if other > one { other } else { one });
        if let (Some((least, most)), true) = (least.zip(most), groups.len() > FEW) {
            let all = found.iter().map(|(stack, _)| *stack).collect();
            return format!("{} {verb} {} to {}", self.words(&all), shown(least), shown(most));
        }
        let each =
            groups.iter().map(|(text, stacks)| format!("{} {verb} {text}", self.words(stacks)));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Many stacks, and as many others: by kinds and options that none of the others has, and the
    /// rest by name.
    fn in_common(&self, these: &[&str]) -> String {
        let own = |mark: &Mark<'_>| -> Vec<&str> {
            let have = |name: &&&str| marks(name).contains(mark);
            self.names.iter().filter(have).copied().collect()
        };
        let mut candidates: Vec<(Mark<'_>, Vec<&str>)> = Vec::new();
        for mark in these.iter().flat_map(|name| marks(name)) {
            let is_known = candidates.iter().any(|(known, _)| *known == mark);
            let stacks = own(&mark);
            if !is_known && stacks.iter().all(|name| these.contains(name)) {
                candidates.push((mark, stacks));
            }
        }
        // Of marks that tell as much, a kind is the plainer one.
        candidates.sort_by_key(|(mark, _)| matches!(mark, Mark::Option(_)));
        let mut rest: Vec<&str> = these.to_vec();
        let (mut kinds, mut options) = (Vec::new(), Vec::new());
        loop {
            let covered =
                |stacks: &[&str]| stacks.iter().filter(|name| rest.contains(name)).count();
            // The first of those that tell most.
            let best = candidates.iter().rev().max_by_key(|(_, stacks)| covered(stacks));
            let Some((mark, stacks)) = best.filter(|(_, stacks)| covered(stacks) > 1) else {
                break;
            };
            match mark {
                Mark::Kind(kind) => kinds.push(*kind),
                Mark::Option(option) => options.push(*option),
            }
            rest.retain(|name| !stacks.contains(name));
        }
        let mut parts = Vec::new();
        parts.extend((!kinds.is_empty()).then(|| format!("every stack of {}", named(kinds))));
        let with = |options: Vec<&str>| format!("every stack with {}", listed(options, "or"));
        parts.extend((!options.is_empty()).then(|| with(options)));
        let (first, more) = match rest.len() > NAMED_MAX {
            true => rest.split_at(FEW),
            false => (rest.as_slice(), &[][..]),
        };
        let first = first.iter().copied();
        parts.extend(match more.len() {
            0 if rest.is_empty() => None,
            0 => Some(named(first)),
            more => {
                let first: Vec<String> = first.map(|name| format!("`{name}`")).collect();
                Some(format!("{} and {more} more", first.join(", ")))
            }
        });
        parts.join(", and ")
    }
}

/// Stacks of which the same is said, in the order in which it is first said.
pub(crate) fn by_words<'a, W: PartialEq>(
    said: impl IntoIterator<Item = (&'a str, W)>,
) -> Vec<(W, BTreeSet<&'a str>)> {
    let groups = grouped(said.into_iter().map(|(stack, words)| (words, stack))).into_iter();
    groups.map(|(words, stacks)| (words, stacks.into_iter().collect())).collect()
}

/// Groups things by their keys, in the order in which the keys are first met.
pub(crate) fn grouped<K: PartialEq, T>(
    things: impl IntoIterator<Item = (K, T)>,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, thing) in things {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(thing),
            None => groups.push((key, vec![thing])),
        }
    }
    groups
}

/// Each thing once, in the order in which they are first met.
pub(crate) fn once<T: PartialEq>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    grouped(things.into_iter().map(|thing| (thing, ()))).into_iter().map(|(it, _)| it).collect()
}

/// Property that several stacks may have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark<'a> {
    /// Their layers, without options.
    Kind(&'a str),
    /// An option of one of their layers.
    Option(&'a str),
}

/// The marks of a stack of one layer; one of several has only its outermost layer's kind in common
/// with others, which says little.
fn marks(stack: &str) -> Vec<Mark<'_>> {
    if stack.contains(['+', ' ']) {
        return Vec::new();
    }
    let (kind, options) = stack.split_once(':').unwrap_or((stack, ""));
    let options = options.split(',').filter(|option| !option.is_empty());
    std::iter::once(Mark::Kind(kind)).chain(options.map(Mark::Option)).collect()
}

/// Parts of a sentence, with this between them; `None` of none.
pub(crate) fn joined(parts: impl IntoIterator<Item = String>, between: &str) -> Option<String> {
    parts.into_iter().reduce(|said, part| said + between + &part)
}

/// As many stacks are told one by one.
const EACH_MAX: usize = 8;

/// Tells of each stack what `told` says, or of many from the one with the least key to the one with
/// the most; `None` of none.
pub(crate) fn each_or_ends<T>(
    mut known: Vec<T>,
    key: impl Fn(&T) -> f64,
    told: impl Fn(&T) -> String,
) -> Option<String> {
    if known.len() <= EACH_MAX {
        return joined(known.iter().map(told), ", ");
    }
    known.sort_by(|one, other| key(one).total_cmp(&key(other)));
    let ends = [known.first(), known.last()].into_iter().flatten().map(told);
    Some(format!("from {}", joined(ends, " to ")?))
}

/// `a`, `b` and `c`, in backticks.
pub(crate) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    listed(names, "and")
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last_by: &str) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let Some(last) = names.pop() else { return String::new() };
    if names.is_empty() { last } else { format!("{} {last_by} {last}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use crate::finding::stacks::*;

    const NETWORKS: [&str; 14] = [
        "native", "runc:net=host", "runc:net=veth", "docker:net=host", "docker:net=bridge",
        "podman:net=host", "podman:net=bridge", "lxc:net=host", "lxc:net=veth", "gvisor:net=host",
        "gvisor:net=sandbox", "qemu:net=tap", "qemu:net=tap,nic=e1000", "qemu+runc:net=host",
    ];

    fn words(these: &[&str]) -> String {
        Stacks { names: NETWORKS.to_vec() }.words(&these.iter().copied().collect())
    }

    #[test]
    fn few_are_named_in_the_order_of_the_plan_and_all_are_every_stack() {
        assert_eq!(words(&["runc:net=host"]), "`runc:net=host`");
        assert_eq!(words(&["lxc:net=veth", "native"]), "`native` and `lxc:net=veth`");
        assert_eq!(words(&NETWORKS), "every stack");
        assert_eq!(words(&[]), "");
        let alone = Stacks { names: vec!["native"] };
        assert_eq!(alone.words(&BTreeSet::from(["native"])), "`native`");
        assert_eq!(alone.words(&BTreeSet::from(["elsewhere"])), "`elsewhere`");
    }

    #[test]
    fn where_nearly_all_are_meant_the_others_are_named() {
        assert_eq!(words(&NETWORKS[1..]), "every stack but `native`");
        assert_eq!(words(&NETWORKS[2..]), "every stack but `native` and `runc:net=host`");
    }

    #[test]
    fn a_half_is_told_by_what_it_has_in_common_and_the_other_half_has_not() {
        let kernels = [&NETWORKS[7..13], &NETWORKS[2..3]].concat();
        assert_eq!(
            words(&kernels),
            "every stack of `lxc`, `gvisor` and `qemu`, and `runc:net=veth`"
        );
        let with = |stack: &&str| marks(stack).contains(&Mark::Option("net=host"));
        let hosts: Vec<&str> = NETWORKS.into_iter().filter(with).collect();
        assert_eq!(hosts.len(), 5);
        assert_eq!(words(&hosts), "every stack with `net=host`");
        let more = [hosts.as_slice(), &["runc:net=veth", "lxc:net=veth"]].concat();
        assert_eq!(words(&more), "every stack with `net=host` or `net=veth`");
    }

    #[test]
    fn what_has_nothing_in_common_is_listed() {
        let odd = ["native", "runc:net=veth", "docker:net=bridge", "lxc:net=host", "qemu:net=tap"];
        assert_eq!(words(&odd), named(odd));
    }

    #[test]
    fn of_many_that_have_nothing_in_common_the_first_are_named() {
        let stacks: Vec<String> = (0..40).map(|number| format!("stack{number}")).collect();
        let all = Stacks { names: stacks.iter().map(String::as_str).collect() };
        let odd = all.names.iter().skip(1).step_by(2).copied().collect();
        assert_eq!(all.words(&odd), "`stack1`, `stack3`, `stack5`, `stack7` and 16 more");
    }

    #[test]
    fn equal_numbers_are_said_once_and_many_numbers_by_their_ends() {
        let stacks = Stacks { names: NETWORKS.to_vec() };
        let said = |found: &[(&str, u64)]| stacks.with_numbers("had", found, |it| it.to_string());
        assert_eq!(said(&[("native", 1)]), "`native` had 1");
        assert_eq!(
            said(&[("native", 1), ("lxc:net=veth", 2), ("runc:net=host", 1)]),
            "`native` and `runc:net=host` had 1, `lxc:net=veth` had 2"
        );
        let each: Vec<(&str, u64)> = NETWORKS[1..].iter().copied().zip(7..).collect();
        assert_eq!(said(&each), "every stack but `native` had 7 to 19");
    }
}
