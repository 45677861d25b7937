//! The gate: what a request must look like before anything is done for it.
//!
//! A page is asked for by people, but also by whatever other pages their browser has open, by other
//! users of this machine, and by whoever reaches the address. The secret in the path keeps out all
//! who were not told it, and no browser adds a path by itself, as it does a cookie. The rest is for
//! those who learned it: a name that somebody makes lead here is refused (DNS rebinding), and so is
//! what another page asks for.
//!
//! Source: Fetch Standard, "Origin header"; Fetch Metadata Request Headers, section 2.4.

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, Uri};
use sha2::{Digest, Sha256};
use std::net::IpAddr;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Reason why nothing is done for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not name this server in a way that nobody else can make lead here.
    Host,
    /// The secret is missing or wrong.
    Secret,
    /// Another page asks.
    Origin,
    /// It wants to do something that is not allowed here.
    Method,
}

/// The secret that every address of this server begins with.
#[derive(Debug)]
pub(super) struct Secret {
    /// The secret itself, for whoever started the server.
    pub(super) text: String,
    hash: [u8; 32],
}

impl Secret {
    pub(super) fn new(text: String) -> Self {
        let hash = Sha256::digest(&text).into();
        Self { text, hash }
    }

    /// Compares hashes, whose first different byte says nothing of the secret.
    fn is(&self, given: &str) -> bool {
        <[u8; 32]>::from(Sha256::digest(given)) == self.hash
    }
}

/// Lets a request in, and returns its path behind the secret, which begins with `/`.
///
/// # Errors
/// The first reason why it is refused.
pub(super) fn admit<'a>(
    method: &Method,
    uri: &'a Uri,
    headers: &HeaderMap,
    secret: &Secret,
) -> Result<&'a str, Refusal> {
    let host = only(headers, &HOST).filter(|_| uri.authority().is_none());
    let host = host.filter(|host| is_ours(host)).ok_or(Refusal::Host)?;
    let path = uri.path().strip_prefix('/').ok_or(Refusal::Secret)?;
    let (given, _) = path.split_once('/').ok_or(Refusal::Secret)?;
    if !secret.is(given) {
        return Err(Refusal::Secret);
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if !is_read && *method != Method::POST {
        return Err(Refusal::Method);
    }
    let is_from_here = match only(headers, &ORIGIN) {
        Some(origin) => origin.strip_prefix("http://") == Some(host),
        // Browsers say with every request that may change something where it comes from.
        None => is_read && !headers.contains_key(ORIGIN),
    };
    let is_same = |site: &str| matches!(site, "same-origin" | "none");
    let is_same_site = !headers.contains_key(SITE) || only(headers, &SITE).is_some_and(is_same);
    if !is_from_here || !is_same_site {
        return Err(Refusal::Origin);
    }
    Ok(&path[given.len()..])
}

/// The text of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() { None } else { first.to_str().ok() }
}

/// Tells whether nobody else can make a host's name lead here: an address itself, or `localhost`,
/// with any port, which may be that of a tunnel.
fn is_ours(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let is_named = name == "localhost" || name.parse::<IpAddr>().is_ok();
    is_named && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn asked(
        method: &str,
        path: &str,
        host: Option<&str>,
        origin: Option<&str>,
        site: Option<&str>,
    ) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin), (SITE, site)] {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        let (method, uri) = (method.parse().unwrap(), path.parse().unwrap());
        admit(&method, &uri, &headers, &Secret::new("s3cret".into())).map(String::from)
    }

    /// Every combination of what a browser, a tool, or somebody hostile may say.
    #[test]
    fn of_all_combinations_those_alone_come_in_that_know_the_secret_and_come_from_here() {
        let hosts = [
            ("127.0.0.1:7878", true),
            ("localhost:7878", true),
            ("[::1]:7878", true),
            ("192.0.2.7:7878", true),
            ("localhost:1234", true),
            ("evil.example:7878", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:7878", false),
            ("127.0.0.1@evil.example", false),
            ("", false),
        ];
        let origins = [
            Some("http://127.0.0.1:7878"),
            Some("http://localhost:7878"),
            Some("https://127.0.0.1:7878"),
            Some("http://evil.example"),
            Some("null"),
            None,
        ];
        let sites =
            [Some("same-origin"), Some("none"), Some("same-site"), Some("cross-site"), None];
        let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"];
        let paths = [("/s3cret/", true), ("/s3cres/", false), ("/", false), ("/s3cret", false)];
        let (mut combinations, mut admitted) = (0, 0);
        for (host, is_ours) in hosts {
            for origin in origins {
                for site in sites {
                    for method in methods {
                        for (path, is_told) in paths {
                            combinations += 1;
                            let result = asked(method, path, Some(host), origin, site);
                            let is_read = matches!(method, "GET" | "HEAD");
                            let is_from_here = match origin {
                                None => is_read,
                                Some(origin) => origin == format!("http://{host}"),
                            };
                            let is_same = matches!(site, None | Some("same-origin" | "none"));
                            let may = is_ours
                                && is_told
                                && (is_read || method == "POST")
                                && is_from_here
                                && is_same;
                            let said = (method, path, host, origin, site);
                            assert_eq!(result.is_ok(), may, "{said:?}: {result:?}");
                            admitted += usize::from(may);
                        }
                    }
                }
            }
        }
        assert_eq!((combinations, admitted), (8_400, 48));
    }

    #[test]
    fn a_path_is_what_stands_behind_the_secret() {
        let path = |path| asked("GET", path, Some("127.0.0.1"), None, None);
        assert_eq!(path("/s3cret/runs/a/"), Ok("/runs/a/".into()));
        assert_eq!(path("http://127.0.0.1/s3cret/"), Err(Refusal::Host), "no proxy");
        assert_eq!(asked("GET", "/s3cret/", None, None, None), Err(Refusal::Host));
    }

    #[test]
    fn a_header_that_is_there_twice_is_none() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, HeaderValue::from_static("localhost"));
        headers.append(HOST, HeaderValue::from_static("evil.example"));
        let secret = Secret::new("s".into());
        let uri = "/s/".parse().unwrap();
        assert_eq!(admit(&Method::GET, &uri, &headers, &secret), Err(Refusal::Host));
        assert_eq!(secret.text, "s");
    }
}
