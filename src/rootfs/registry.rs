//! Images of registries: fetched once, by `skopeo`, and kept as OCI layouts.
//!
//! What a name means is asked of its registry once: from then on it means here what was fetched
//! then, until its directory below the cache is removed, so that all trials and all runs have the
//! same. The evidence has the name, and the digest of what was unpacked. A name with a digest means
//! the same everywhere.
//!
//! `skopeo` is the client of whoever runs surtax, with their logins, mirrors and policy. As engines
//! do it asks a registry on this machine itself (`localhost`, `127.0.0.1`) without TLS.
//!
//! - **Reference** `skopeo-copy(1)`, `containers-transports(5)`.

use super::image::Aside;
use crate::fault::{Doing, Fault};
use crate::lab::{self, exclusive};
use crate::layer::{TRANSPORT, Unavailable};
use sha2::{Digest, Sha256};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::hex;

/// Directory in the cache in which they are kept.
const STORE: &str = "references";

const PROGRAM: &str = "skopeo";

/// Time that one may take.
const DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Requires what an image of this name takes: it is here, or can be asked for.
///
/// # Errors
/// The machine's: neither.
pub fn require(reference: &str, cache: &Path) -> Result<(), Unavailable> {
    if is_here(&kept_at(reference, cache)) || lab::find(PROGRAM).is_some() {
        return Ok(());
    }
    let why = format!("`{PROGRAM}`, which fetches the image `{reference}`, is not in `PATH`");
    Err(Unavailable::new(why, "apt-get install skopeo"))
}

/// Fetches an image unless it is here, and says where its layout is.
///
/// # Errors
/// The machine's: there is none of this name, nobody answers, or it may not be had; in the words of
/// `skopeo`.
pub fn fetch(reference: &str, cache: &Path) -> Result<PathBuf, Fault> {
    let kept = kept_at(reference, cache);
    if is_here(&kept) {
        return Ok(kept);
    }
    let store = exclusive::ensure_shut(&cache.join(STORE))?;
    let aside = Aside::new(&store)?;
    let layout = aside.path().join("layout");
    lab::ask_as_themselves(&command_line(reference, &layout), DEADLINE)
        .map_err(|fault| fault.during(format_args!("image `{reference}`")))?;
    match fs::rename(&layout, &kept) {
        // Another process was faster.
        Err(_) if is_here(&kept) => Ok(kept),
        other => other.map(|()| kept.clone()).doing(format_args!("keep `{}`", kept.display())),
    }
}

/// Path at which an image of this name is kept, whatever letters are in it.
fn kept_at(reference: &str, cache: &Path) -> PathBuf {
    cache.join(STORE).join(hex::of(&Sha256::digest(reference)))
}

fn is_here(layout: &Path) -> bool {
    layout.join("index.json").is_file()
}

fn command_line(reference: &str, layout: &Path) -> Vec<String> {
    let without_tls = is_here_itself(reference).then_some("--src-tls-verify=false");
    let words = [PROGRAM, "copy", "--quiet"].into_iter().chain(without_tls).map(str::to_owned);
    let places = [format!("{TRANSPORT}://{reference}"), format!("oci:{}", layout.display())];
    words.chain(places).collect()
}

/// Tells whether the registry of a name is on this machine itself.
fn is_here_itself(reference: &str) -> bool {
    let Some((host, _)) = reference.split_once('/') else { return false };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_on_this_machine_is_asked_without_tls() {
        for (reference, is_here) in [
            ("localhost/a", true),
            ("localhost:5000/a/b:1", true),
            ("127.0.0.1:5000/a@sha256:00", true),
            ("alpine:3", false),
            ("localhost", false),
            ("localhost.example.org/a", false),
            ("127.0.0.1.example.org/a", false),
            ("docker.io/localhost/a", false),
        ] {
            let line = command_line(reference, Path::new("/cache/x/layout"));
            assert_eq!(line.contains(&String::from("--src-tls-verify=false")), is_here, "{line:?}");
            assert_eq!(line[line.len() - 2], format!("docker://{reference}"));
        }
    }

    #[test]
    fn no_name_leads_out_of_the_store() {
        let at = |reference: &str| kept_at(reference, Path::new("/cache"));
        assert_eq!(at("../../etc/x").parent(), Some(Path::new("/cache/references")));
        assert_ne!(at("alpine:3"), at("alpine:3.1"));
    }
}
