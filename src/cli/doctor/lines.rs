//! Lines of the doctor's answer: one for each form of a layer, or in one screen one for each layer.

use super::checks::Finding;

/// Summary of a layer, or of one of its forms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Kind of the layer, or text of the form.
    pub name: &'a str,
    /// True if it can run here, a layer in one of its forms.
    pub usable: bool,
    /// Facts, or why it cannot run.
    pub found: String,
    /// Advice where it cannot run.
    pub remedy: Option<&'a str>,
}

/// Groups the findings of each layer, which follow one another.
pub(super) fn by_layer(findings: &[Finding]) -> impl Iterator<Item = &[Finding]> {
    findings.chunk_by(|one, other| one.kind == other.kind)
}

/// A line for each form.
pub(super) fn of_forms(findings: &[Finding]) -> Vec<Line<'_>> {
    findings.iter().map(of_form).collect()
}

/// A line for each layer: its first fact, and why its usual form cannot run where another one can.
pub(super) fn of_layers(findings: &[Finding]) -> Vec<Line<'_>> {
    by_layer(findings).map(of_layer).collect()
}

fn of_form(form: &Finding) -> Line<'_> {
    let found = form.why.clone().unwrap_or_else(|| form.facts_text());
    Line { name: &form.layer, usable: form.usable, found, remedy: form.remedy.as_deref() }
}

fn of_layer(forms: &[Finding]) -> Line<'_> {
    let usual = &forms[0];
    let mut usable = forms.iter().filter(|form| form.usable);
    let Some(best) = usable.next() else { return Line { name: usual.kind, ..of_form(usual) } };
    let mut found = best.first_fact();
    if forms.len() > 1 {
        found += &format!("; {} of {} forms", 1 + usable.count(), forms.len());
    }
    if let Some(why) = &usual.why {
        found += &format!("\nnot `{}`: {why}", usual.layer);
    }
    Line { name: usual.kind, usable: true, found, remedy: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::SeenFact;

    fn form(layer: &str, kind: &'static str, gap: Option<&str>) -> Finding {
        let fact = |key: &str| SeenFact { key: key.into(), value: "7".into(), source: "x".into() };
        Finding {
            layer: layer.into(),
            kind,
            summary: "",
            usable: gap.is_none(),
            why: gap.map(String::from),
            remedy: gap.map(|_| String::from("mend it")),
            ran_on_hardware: true,
            facts: if gap.is_none() { vec![fact("first"), fact("second")] } else { Vec::new() },
        }
    }

    #[test]
    fn a_layer_is_usable_in_any_form_and_says_why_its_usual_one_is_not() {
        let findings = [
            form("runc", "runc", None),
            form("qemu:accel=kvm", "qemu", Some("no KVM")),
            form("qemu:accel=tcg", "qemu", None),
            form("qemu:accel=tcg+runc", "qemu", None),
            form("xen:type=pv", "xen", Some("no Xen")),
            form("xen:type=pvh", "xen", Some("no Xen, either")),
        ];
        let line = |name, usable, found: &str, remedy| {
            let found = String::from(found);
            Line { name, usable, found, remedy }
        };
        let qemu = "first 7; 2 of 3 forms\nnot `qemu:accel=kvm`: no KVM";
        let expected = [
            line("runc", true, "first 7", None),
            line("qemu", true, qemu, None),
            line("xen", false, "no Xen", Some("mend it")),
        ];
        assert_eq!(of_layers(&findings), expected);
        assert_eq!(
            of_forms(&findings)[1],
            line("qemu:accel=kvm", false, "no KVM", Some("mend it"))
        );
        assert_eq!(of_forms(&findings)[2].found, "first 7, second 7");
    }
}
