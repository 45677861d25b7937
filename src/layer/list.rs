//! Splits `--in native,runc,qemu:mem=1G,accel=tcg+runc` into stacks.
//!
//! A comma separates stacks as well as options. The rule that tells them apart: a piece in which
//! `=` comes before any `:` or `+`, and whose word before it is not a layer's name, is one more
//! option of the stack before it; every other piece begins a stack.

use crate::fault::Fault;
use crate::layer::{Descriptor, StackSpec};

/// Reads a comma-separated list of stacks and checks each against these descriptors.
///
/// # Errors
/// The first stack's that is refused; see [`StackSpec::parse_with`].
pub fn parse_list_with(
    text: &str,
    descriptors: &[&'static Descriptor],
) -> Result<Vec<StackSpec>, Fault> {
    let stacks = split_list(text, descriptors)?.into_iter();
    stacks.map(|stack| StackSpec::parse_with(stack, descriptors)).collect()
}

/// Splits a list where a stack begins, and reads none.
///
/// # Errors
/// The user's: nothing stands between two commas.
pub fn split_list<'a>(
    text: &'a str,
    descriptors: &[&'static Descriptor],
) -> Result<Vec<&'a str>, Fault> {
    let stacks = split(text, descriptors);
    let is_missing = |stack: &&str| stack.trim().is_empty();
    if stacks.iter().any(is_missing) && !text.trim().is_empty() {
        return Err(Fault::user(format!("a stack is missing between the commas of `{text}`"))
            .hint("drop the surplus comma"));
    }
    Ok(stacks)
}

fn split<'a>(text: &'a str, descriptors: &[&'static Descriptor]) -> Vec<&'a str> {
    let mut stacks: Vec<&str> = Vec::new();
    let mut begin = 0;
    let mut end = 0;
    for (index, piece) in text.split(',').enumerate() {
        let piece_begin = if index == 0 { 0 } else { end + 1 };
        let piece_end = piece_begin + piece.len();
        if index > 0 && !continues(piece, descriptors) {
            stacks.push(&text[begin..end]);
            begin = piece_begin;
        }
        end = piece_end;
    }
    stacks.push(&text[begin..end]);
    stacks
}

fn continues(piece: &str, descriptors: &[&'static Descriptor]) -> bool {
    let Some((key, _)) = piece.split_once('=') else { return false };
    let key = key.trim();
    !key.contains([':', '+']) && !descriptors.iter().any(|descriptor| descriptor.kind == key)
}

#[cfg(test)]
mod tests {
    use crate::layer::list::*;
    use crate::layer::parse::tests::DESCRIPTORS;

    fn texts(list: &str) -> Result<Vec<String>, String> {
        parse_list_with(list, DESCRIPTORS)
            .map(|stacks| stacks.iter().map(ToString::to_string).collect())
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_comma_before_an_option_continues_the_stack_and_any_other_begins_one() {
        assert_eq!(
            texts("native,runc,qemu:mem=1G,accel=tcg+runc, docker:cpus=2,memory=1G,simulated"),
            Ok(vec![
                String::from("native"),
                String::from("runc"),
                String::from("qemu:accel=tcg,memory=1G+runc"),
                String::from("docker:cpus=2,memory=1G"),
                String::from("simulated"),
            ])
        );
    }

    #[test]
    fn a_misspelt_layer_after_a_comma_is_still_called_a_layer() {
        let message = texts("native,rnuc:cpus=1").unwrap_err();
        assert!(
            message.starts_with("unknown layer `rnuc`\n    rnuc:cpus=1\n    ^^^^\n"),
            "{message}"
        );
    }

    #[test]
    fn an_option_after_a_layer_without_a_colon_is_refused_with_the_right_spelling() {
        let message = texts("native,runc,cpus=2").unwrap_err();
        assert!(message.ends_with("hint: write `runc:cpus=2`"), "{message}");
    }

    #[test]
    fn surplus_commas_are_refused() {
        for list in ["native,,runc", ",native", "native,"] {
            assert!(texts(list).unwrap_err().contains("a stack is missing"), "{list}");
        }
        assert!(texts("").unwrap_err().contains("the stack is empty"));
    }
}
