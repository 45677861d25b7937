//! Mutation: makes a new input of old ones, the same one again for the same state of the generator.

use rand::{Rng, RngExt};

/// Numbers at which readers go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// The most changes of one input.
const CHANGES: u32 = 6;

/// The longest part that is copied or taken away, in bytes.
const PART: usize = 64;

/// Material that inputs are made of.
pub struct Material<'a> {
    /// The corpus, which is not empty.
    pub inputs: &'a [Vec<u8>],
    /// Words of the target's language.
    pub words: &'a [Vec<u8>],
    /// The longest input, in bytes.
    pub longest: usize,
}

/// Makes the next input in `into`.
pub fn next(random: &mut impl Rng, material: &Material<'_>, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(any(random, material.inputs));
    for _ in 0..random.random_range(1..=CHANGES) {
        change(random, material, into);
    }
    into.truncate(material.longest);
}

fn any<'a>(random: &mut impl Rng, inputs: &'a [Vec<u8>]) -> &'a [u8] {
    if inputs.is_empty() { &[] } else { &inputs[random.random_range(0..inputs.len())] }
}

/// A part of `bytes`, at most [`PART`] long.
fn part(random: &mut impl Rng, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = random.random_range(0..=bytes.len());
    let length = random.random_range(0..=PART.min(bytes.len() - start));
    start..start + length
}

fn change(random: &mut impl Rng, material: &Material<'_>, bytes: &mut Vec<u8>) {
    let at = random.random_range(0..=bytes.len());
    match random.random_range(0..12) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.random_range(0..8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.random();
            }
        }
        3 | 4 => edge(random, bytes, at),
        5 => bytes.insert(at, random.random()),
        6 => {
            let taken = part(random, bytes);
            bytes.drain(taken);
        }
        7 => {
            let copied = bytes[part(random, bytes)].to_vec();
            bytes.splice(at..at, copied);
        }
        8 => bytes.truncate(at),
        9 => {
            let other = any(random, material.inputs);
            let from = random.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        10 => digits(random, bytes, at),
        _ => {
            if !material.words.is_empty() {
                let word = &material.words[random.random_range(0..material.words.len())];
                let end = if random.random() { at } else { (at + word.len()).min(bytes.len()) };
                bytes.splice(at..end, word.iter().copied());
            }
        }
    }
}

/// Writes a number at an edge over the bytes there, in one of the widths and orders of files.
fn edge(random: &mut impl Rng, bytes: &mut [u8], at: usize) {
    let number = EDGES[random.random_range(0..EDGES.len())].wrapping_add(random.random_range(0..3));
    let width = 1 << random.random_range(0..4);
    let Some(place) = bytes.get_mut(at..at + width) else { return };
    if random.random() {
        place.copy_from_slice(&number.to_le_bytes()[..width]);
    } else {
        place.copy_from_slice(&number.to_be_bytes()[8 - width..]);
    }
}

/// Puts another number where the next digits stand.
fn digits(random: &mut impl Rng, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|it| at + it) else {
        return;
    };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = EDGES[random.random_range(0..EDGES.len())];
    let sign = if random.random_range(0..4) == 0 { "-" } else { "" };
    bytes.splice(start..start + length, format!("{sign}{number}").into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn made(seed: u64) -> Vec<Vec<u8>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let inputs = [b"count=12\n".to_vec(), Vec::new()];
        let material = Material { inputs: &inputs, words: &[b"word".to_vec()], longest: 40 };
        let one = |_| {
            let mut bytes = Vec::new();
            next(&mut random, &material, &mut bytes);
            bytes
        };
        (0..2000).map(one).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_another_one_others() {
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
    }

    #[test]
    fn inputs_differ_hold_words_and_edges_and_keep_their_limit() {
        let made = made(7);
        assert!(made.iter().all(|bytes| bytes.len() <= 40));
        let distinct: std::collections::HashSet<_> = made.iter().collect();
        assert!(distinct.len() > made.len() / 2, "{}", distinct.len());
        let holds = |word: &[u8]| {
            made.iter().any(|bytes| bytes.windows(word.len()).any(|window| window == word))
        };
        assert!(holds(b"word") && holds(b"18446744073709551615") && holds(&[0xff; 4]));
    }
}
