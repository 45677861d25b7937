//! Images of registries, in the text of a stack: `image=alpine:3`.

use super::{LayerText, Source, canonical};
use crate::fault::Fault;
use crate::layer::common_options::{COMMON, refuse_value};
use crate::layer::site::TRANSPORT;
use crate::layer::{Descriptor, Files, RootKind};

/// Tells whether a key says the name of an image in a registry, as `image=alpine:3` of a container:
/// another word for `root=docker://alpine:3`.
pub(super) fn is_image_of(descriptor: &Descriptor, key: &str) -> bool {
    let is_own = descriptor.options.iter().any(|option| option.key == key);
    let is_container = descriptor.files == Files::Overlaid && !descriptor.is_remote;
    key == "image" && !is_own && is_container && descriptor.roots.contains(&RootKind::Oci)
}

/// Tells whether a word is none of a kind's options, and may be the name of an image.
pub(super) fn is_an_image(kind: &str, word: &str, descriptors: &[&'static Descriptor]) -> bool {
    let Some(descriptor) = Descriptor::of_kind(kind, descriptors) else { return false };
    let is_own = descriptor.options.iter().any(|option| option.key == word);
    let first = word.bytes().next();
    let is_word = first.is_some_and(|byte| byte.is_ascii_alphanumeric()) && !word.contains('=');
    is_word && !is_own && is_image_of(descriptor, "image") && !COMMON.contains(&canonical(word))
}

impl Source<'_> {
    /// Reads the name of an image, as the root that it means.
    pub(super) fn image(
        &self,
        descriptor: &Descriptor,
        layer: &LayerText<'_>,
        (key, name): (&str, &str),
        descriptors: &[&'static Descriptor],
    ) -> Result<String, Fault> {
        let root = format!("{TRANSPORT}://{name}");
        refuse_value(descriptor, "root", &root, descriptors)
            .map_err(|fault| Fault { hint: fault.hint, ..self.refuse(name, fault.message) })?;
        if layer.options.iter().any(|(other, _)| *other == "root") {
            return Err(self
                .refuse(key, "`image=` and `root=` both say which files there are")
                .hint("keep one of them"));
        }
        Ok(root)
    }
}
