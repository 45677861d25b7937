//! Rights to start a stack: what is refused before it is tried.

use super::{descriptor, parse};
use crate::lab::{Limits, us};
use crate::layer::{Descriptor, LayerSpec, Rights, Unavailable};

/// Refuses a stack that takes more rights than this process has. `limits` are those of its
/// outermost layer. One of a kind that only another surtax knows is not refused.
///
/// # Errors
/// The machine's: what it takes, and what would give that.
pub fn require(layers: &[LayerSpec], limits: &Limits) -> Result<(), Unavailable> {
    refused(layers, limits, Rights::here()).map_or(Ok(()), Err)
}

fn refused(layers: &[LayerSpec], limits: &Limits, have: Rights) -> Option<Unavailable> {
    let outermost = layers.first()?;
    let descriptor = descriptor(&outermost.kind)?;
    let needed = (descriptor.rights)(outermost);
    let is_of_all = (descriptor.rights)(&LayerSpec::of(descriptor.kind, &[])) == needed;
    let shown = if is_of_all { descriptor.kind.to_owned() } else { outermost.to_string() };
    let why = match needed {
        Rights::Root if have < Rights::Root => format!("`{shown}` can only be started by root"),
        Rights::Namespace if have < Rights::Namespace => format!(
            "`{shown}` can only be started by root, or in a user namespace of your own, which this \
             machine refuses: {}",
            us::refused().unwrap_or("none was asked for")
        ),
        _ if have == Rights::Root => return None,
        _ if layers.len() > 1 => String::from("a stack of several layers takes root"),
        _ if takes_a_group(descriptor, limits) => {
            String::from("limits are those of a control group, which takes root to make")
        }
        _ => return None,
    };
    let instead = easier(descriptor, have).map_or_else(String::new, |it| format!(", or `{it}`"));
    Some(Unavailable::new(why, format!("sudo surtax …{instead}")))
}

/// Tells whether a layer keeps these limits by a group: of those of a machine it keeps its CPUs and
/// its memory by itself.
fn takes_a_group(descriptor: &Descriptor, limits: &Limits) -> bool {
    let kept =
        if descriptor.has_own_memory { limits.of_a_machines_group() } else { limits.clone() };
    kept != Limits::default()
}

/// Returns the form of a kind that takes no more than these rights, where it has one and its plain
/// form takes more.
fn easier(descriptor: &Descriptor, have: Rights) -> Option<&'static str> {
    let rights = |text: &str| Some((descriptor.rights)(parse(text).ok()?.layers.first()?));
    if rights(descriptor.kind)? <= have {
        return None;
    }
    descriptor.variants.iter().copied().find(|text| rights(text).is_some_and(|it| it <= have))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Rights::{Namespace, Root, User};

    fn why(text: &str, have: Rights) -> Option<String> {
        let layers = parse(text).unwrap().layers;
        let limits = layers[0].limits().unwrap();
        let refused = refused(&layers, &limits, have)?;
        Some(format!("{}; {}", refused.why, refused.remedy.unwrap()))
    }

    #[test]
    fn what_takes_more_rights_than_there_are_is_refused_with_what_gives_them() {
        for text in ["native", "docker", "firecracker", "runc+runc", "runc:cpus=1"] {
            assert_eq!(why(text, Root), None, "{text}");
        }
        for (text, have, said) in [
            ("crun", Namespace, "`crun` can only be started by root; sudo surtax …"),
            (
                "firecracker:root=packed",
                Namespace,
                "`firecracker` can only be started by root; sudo surtax …",
            ),
            ("runc+runc", Namespace, "a stack of several layers takes root; sudo surtax …"),
            (
                "runc:memory=1G",
                Namespace,
                "limits are those of a control group, which takes root to make; sudo surtax …",
            ),
            (
                "qemu:weight=50",
                Namespace,
                "limits are those of a control group, which takes root to make; sudo surtax …",
            ),
            (
                "runc:net=host",
                Namespace,
                "`runc:net=host` can only be started by root; sudo surtax …",
            ),
            (
                "qemu:files=virtiofs",
                Namespace,
                "`qemu:files=virtiofs` can only be started by root; sudo surtax …",
            ),
            (
                "native",
                User,
                "`native` can only be started by root, or in a user namespace of your own, which \
                 this machine refuses: none was asked for; sudo surtax …, or `native:root=host`",
            ),
        ] {
            assert_eq!(why(text, have).as_deref(), Some(said), "{text}");
        }
        for (text, have) in [
            ("native:root=host", User),
            ("ssh:box", User),
            ("runc", Namespace),
            ("qemu:accel=tcg,memory=1G,cpus=2", Namespace),
            ("qemu:files=9p", Namespace),
        ] {
            assert_eq!(why(text, have), None, "{text}");
        }
    }
}
