//! Questions that the doctor asks: one per layer, and one per variant where they can differ.

use super::checks::Check;
use crate::cli::run_and_report::OpenedLab;
use crate::driver::{self, registered, rights};
use crate::fault::Fault;
use crate::layer::{Descriptor, Layer, LayerSpec, Root, Unavailable, Usable, View};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time limit of an answer.
const DEADLINE: Duration = Duration::from_secs(15);

/// Time limit of the proof of KVM: a reference guest boots, once per boot of this machine. Where it
/// hangs that takes 22 s, after its kernel was unpacked: on a busy machine 15 s more.
const PROOF_DEADLINE: Duration = Duration::from_secs(45);

/// The layers that were named, however they are typed, in the order of the registry; without a name
/// all but those for tests of surtax.
///
/// # Errors
/// The user's: there is no such layer.
pub(super) fn asked(named: &[String]) -> Result<Vec<&'static Descriptor>, Fault> {
    let mut kinds = BTreeSet::new();
    for text in named {
        for layer in asked_about(text)? {
            kinds.insert(layer.kind);
        }
    }
    let is_asked = |descriptor: &&'static Descriptor| match kinds.is_empty() {
        true => descriptor.is_listed,
        false => kinds.contains(descriptor.kind),
    };
    Ok(registered().into_iter().filter(is_asked).collect())
}

/// Questions about these layers.
pub(super) fn about(
    descriptors: &[&'static Descriptor],
    opened: &Arc<OpenedLab>,
) -> Result<Vec<Check>, Fault> {
    let mut questions = Vec::new();
    for descriptor in descriptors {
        let alone = [descriptor.kind];
        let texts = if descriptor.variants.is_empty() { &alone } else { descriptor.variants };
        for text in texts {
            questions.push(question(text, opened)?);
        }
    }
    Ok(questions)
}

/// The layers of a text. One that needs a subject, such as a host, is asked about without it:
/// whether its own tool is here.
fn asked_about(text: &str) -> Result<Vec<LayerSpec>, Fault> {
    if driver::descriptor(text).is_some() {
        return Ok(vec![LayerSpec { kind: text.to_owned(), options: BTreeMap::new() }]);
    }
    Ok(driver::parse(text)?.layers)
}

/// Tells whether what an inner layer needs can be seen from here. Its files can, in the roots of
/// the levels around it. Whether a kernel is Xen's cannot.
fn is_seen_from_here(inner: &LayerSpec) -> bool {
    driver::descriptor(&inner.kind).is_none_or(|descriptor| descriptor.is_seen_from_outside)
}

/// Tells whether the answer may wait for the proof of KVM.
fn may_prove(text: &str) -> bool {
    let proves = |layer: &LayerSpec| {
        driver::descriptor(&layer.kind).is_some_and(|it| (it.may_prove_kvm)(layer))
    };
    asked_about(text).is_ok_and(|layers| layers.iter().any(proves))
}

fn question(text: &'static str, opened: &Arc<OpenedLab>) -> Result<Check, Fault> {
    let mut layers = asked_about(text)?;
    if layers.is_empty() {
        return Err(Fault::bug("the doctor asks about a stack without a layer"));
    }
    let spec = layers.remove(0);
    let driver = driver::find(&spec.kind)?;
    let stack = [&[spec.clone()][..], &layers].concat();
    let inner: Vec<LayerSpec> = layers.into_iter().filter(is_seen_from_here).collect();
    let opened = Arc::clone(opened);
    Ok(Check {
        layer: String::from(text),
        descriptor: driver.descriptor(),
        has_run: driver.descriptor().ran_on_hardware
            && !driver.descriptor().not_yet_run.contains(&text),
        deadline: if may_prove(text) { PROOF_DEADLINE } else { DEADLINE },
        ask: Box::new(move || {
            rights::require(&stack, &spec.limits()?)?;
            let usable = look(driver, &spec, &opened)?;
            for spec in &inner {
                look(driver::find(&spec.kind)?, spec, &opened)?;
            }
            Ok(usable)
        }),
    })
}

/// Asks one layer, and whether its limits can be kept.
fn look(driver: &dyn Layer, spec: &LayerSpec, opened: &OpenedLab) -> Result<Usable, Unavailable> {
    let view = View {
        root: spec.root().unwrap_or(Root::Overlay),
        writable: Vec::<PathBuf>::new(),
        cwd: Path::new("/").to_path_buf(),
        scratch: None,
        shows_secrets: spec.shows_secrets(),
    };
    let limits = spec.limits()?;
    let site = opened.site(&view, &limits, PROOF_DEADLINE);
    let usable = driver.check(spec, &site)?;
    site.lab.require_limits(&limits)?;
    Ok(usable)
}
