//! The content policy of the report: this style, this script, and nothing else.
//!
//! Source: W3C Content Security Policy Level 3, section 2.3.1, hash sources.

use sha2::{Digest, Sha256};

/// A policy under which only the two given texts take effect, and the page asks its server or
/// nobody.
pub fn allowing(style: &str, script: &str, may_ask: bool) -> String {
    let (connect, form) = if may_ask { (" connect-src 'self';", "'self'") } else { ("", "'none'") };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}';{connect} base-uri \
         'none'; form-action {form}",
        base64(&Sha256::digest(style)),
        base64(&Sha256::digest(script))
    )
}

/// Base 64 with padding, RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let place = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= group.len() { char::from(DIGITS[place]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_is_that_of_the_rfc() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|t| base64(t.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }
}
