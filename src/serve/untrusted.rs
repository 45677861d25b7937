//! Untrusted requests, handed to who reads them without a server: for the fuzz target.

use super::gate::{Secret, admit};
use super::route::Route;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};

/// Reads a request, a line `METHOD PATH` and one for each header, as a server with this secret
/// does. `None`: nothing is done for it; else whether something is done, and not only shown.
#[must_use]
pub fn request(bytes: &[u8], secret: &str) -> Option<bool> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = std::str::from_utf8(lines.next()?).ok()?;
    let (method, uri) = first.split_once(' ')?;
    let (method, uri): (Method, Uri) = (method.parse().ok()?, uri.parse().ok()?);
    let mut headers = HeaderMap::new();
    for line in lines {
        let place = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..place]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[place + 1..].trim_ascii()).ok()?);
    }
    let path = admit(&method, &uri, &headers, &Secret::new(secret.into())).ok()?;
    let route = Route::of(path, uri.query().unwrap_or_default())?;
    route.is_asked_by(&method).then(|| route.is_act())
}
