//! The layers in one screen: a line for each, and not one for each of its forms.

use super::checks::Finding;

/// Summary of one layer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Brief<'a> {
    /// Kind of the layer.
    pub kind: &'a str,
    /// True if one of its forms can run here.
    pub usable: bool,
    /// First fact of a form that can run, or why none can.
    pub found: String,
    /// Advice where no form can run.
    pub remedy: Option<&'a str>,
    /// The usual form and why that cannot run, where another one can.
    pub usual_gap: Option<String>,
}

/// Sums up what was found of each layer, in the order of the findings, of which those of one layer
/// follow one another.
pub(super) fn of(findings: &[Finding]) -> Vec<Brief<'_>> {
    findings.chunk_by(|one, other| one.kind == other.kind).map(of_layer).collect()
}

fn of_layer(forms: &[Finding]) -> Brief<'_> {
    let usual = &forms[0];
    let mut usable = forms.iter().filter(|form| form.usable);
    let Some(best) = usable.next() else {
        let found = usual.why.clone().unwrap_or_default();
        let remedy = usual.remedy.as_deref();
        return Brief { kind: usual.kind, usable: false, found, remedy, usual_gap: None };
    };
    let all = forms.len();
    let found = match (best.first_fact(), 1 + usable.count()) {
        (fact, 1) if all == 1 => fact,
        (fact, count) => format!("{fact}; {count} of {all} forms"),
    };
    let why = usual.why.as_deref().filter(|_| !usual.usable);
    let usual_gap = why.map(|why| format!("not `{}`: {why}", usual.layer));
    Brief { kind: usual.kind, usable: true, found, remedy: None, usual_gap }
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
        let [runc, qemu, xen] = &of(&findings)[..] else { panic!("a line for each layer") };
        assert_eq!((runc.usable, runc.found.as_str(), &runc.usual_gap), (true, "first 7", &None));
        assert_eq!((qemu.usable, qemu.found.as_str()), (true, "first 7; 2 of 3 forms"));
        assert_eq!(qemu.usual_gap.as_deref(), Some("not `qemu:accel=kvm`: no KVM"));
        assert_eq!(
            (xen.usable, xen.found.as_str(), xen.remedy),
            (false, "no Xen", Some("mend it"))
        );
    }
}
