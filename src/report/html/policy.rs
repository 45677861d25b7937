//! The content policy of the report: this style, this script, and nothing else.
//!
//! Source: W3C Content Security Policy Level 3, section 2.3.1, hash sources.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// A policy under which only the two given texts take effect, and the page asks its server or
/// nobody.
pub fn allowing(style: &str, script: &str, may_ask: bool) -> String {
    let (connect, form) = if may_ask { (" connect-src 'self';", "'self'") } else { ("", "'none'") };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}';{connect} base-uri \
         'none'; form-action {form}",
        BASE64_STANDARD.encode(Sha256::digest(style)),
        BASE64_STANDARD.encode(Sha256::digest(script))
    )
}
