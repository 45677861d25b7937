//! The fields of a metric in CSV: what each is called, and where its value comes from.

use crate::finding::{
    AbsenceFindings, ArmFindings, InstanceFindings, Interval, JudgementFindings, MetricFindings,
    QuantileFindings, Verdict,
};

/// A field by its name.
type Field = (&'static str, fn(&Row<'_>) -> String);

/// All of them, in the order of the columns. Names are promised: one more stands last.
pub(super) const FIELDS: [Field; 38] = [
    ("arm", |row| row.arm.arm.to_string()),
    ("stack", |row| row.arm.stack.clone()),
    ("part", |row| row.arm.part.clone()),
    ("trial_count", |row| row.arm.trial_count.to_string()),
    ("metric", |row| row.word(|it| &it.metric)),
    ("unit", |row| row.word(|it| &it.unit)),
    ("better", |row| row.word(|it| &it.better)),
    ("median", |row| row.number(|it| it.median)),
    ("min", |row| row.number(|it| it.min)),
    ("quartile_first", |row| row.number(|it| it.quartiles.0)),
    ("quartile_third", |row| row.number(|it| it.quartiles.1)),
    ("max", |row| row.number(|it| it.max)),
    ("overhead_ratio", |row| row.overhead(|it| it.ratio)),
    ("overhead_low", |row| row.overhead(|it| it.low)),
    ("overhead_high", |row| row.overhead(|it| it.high)),
    ("confidence", |row| row.overhead(|it| it.confidence)),
    ("verdict", |row| row.verdict()),
    ("why", |row| row.why()),
    ("because", |row| row.because()),
    ("block_count", |row| row.block_count()),
    ("more_blocks", |row| row.more_blocks()),
    ("p_value", |row| row.judged(|own| own.p_value, |arm| arm.p_value)),
    ("p_value_adjusted", |row| row.judged(|own| own.p_value_adjusted, |arm| arm.p_value_adjusted)),
    ("detectable_effect", |row| {
        row.judged(|own| own.detectable_effect, |arm| arm.detectable_effect)
    }),
    ("p50_low", |row| row.quantile(0.5, |it| it.low)),
    ("p50_high", |row| row.quantile(0.5, |it| it.high)),
    ("p90", |row| row.quantile(0.9, |it| it.value)),
    ("p90_low", |row| row.quantile(0.9, |it| it.low)),
    ("p90_high", |row| row.quantile(0.9, |it| it.high)),
    ("p99", |row| row.quantile(0.99, |it| it.value)),
    ("p99_low", |row| row.quantile(0.99, |it| it.low)),
    ("p99_high", |row| row.quantile(0.99, |it| it.high)),
    ("instance_min", |row| row.instances(|it| Some(it.min))),
    ("instance_max", |row| row.instances(|it| Some(it.max))),
    ("instance_variation_ratio", |row| row.instances(|it| it.variation_ratio)),
    ("alone_ratio", |row| row.alone(|it| it.ratio)),
    ("alone_low", |row| row.alone(|it| it.low)),
    ("alone_high", |row| row.alone(|it| it.high)),
];

/// One metric of one arm; an arm without numbers has none.
pub(super) struct Row<'a> {
    arm: &'a ArmFindings,
    metric: Option<&'a MetricFindings>,
    /// Judgement of the metric itself.
    own: Option<&'a JudgementFindings>,
    /// True if the arm's own verdict, which is of wall time, is the metric's.
    is_wall: bool,
}

impl<'a> Row<'a> {
    pub(super) fn of(arm: &'a ArmFindings, metric: Option<&'a MetricFindings>) -> Self {
        let own = metric.and_then(|metric| metric.judgement.as_ref());
        let is_wall = metric.is_none_or(|metric| metric.metric == "wall_ns");
        Self { arm, metric, own, is_wall }
    }

    /// The values of all fields, in their order.
    pub(super) fn values(&self) -> Vec<String> {
        FIELDS.iter().map(|(_, value)| value(self)).collect()
    }

    fn word(&self, of: fn(&MetricFindings) -> &str) -> String {
        self.metric.map_or("", of).to_owned()
    }

    fn number(&self, of: fn(&MetricFindings) -> f64) -> String {
        or_empty(self.metric.map(of))
    }

    fn overhead(&self, of: fn(&Interval) -> f64) -> String {
        or_empty(self.metric.and_then(|metric| metric.overhead.as_ref()).map(of))
    }

    fn of_arm(&self) -> Option<&'a ArmFindings> {
        self.is_wall.then_some(self.arm)
    }

    fn verdict(&self) -> String {
        let own = self.own.map(|own| &own.verdict);
        own.or(self.of_arm().map(|arm| &arm.verdict)).map_or("", Verdict::word).to_owned()
    }

    fn why(&self) -> String {
        match &self.arm.verdict {
            Verdict::Invalid { reason, .. } => reason.clone(),
            _ => String::new(),
        }
    }

    fn because(&self) -> String {
        let own = self.own.map(|own| &own.because);
        own.or(self.of_arm().map(|arm| &arm.because)).cloned().unwrap_or_default()
    }

    fn block_count(&self) -> String {
        let counted = self.of_arm().filter(|arm| arm.overhead.is_some());
        or_empty(self.own.map(|own| own.block_count).or(counted.map(|arm| arm.block_count)))
    }

    fn more_blocks(&self) -> String {
        let of_arm = self.of_arm().and_then(|arm| arm.more_blocks);
        or_empty(self.own.map_or(of_arm, |own| own.more_blocks))
    }

    fn judged(
        &self,
        of_own: fn(&JudgementFindings) -> Option<f64>,
        of_wall: fn(&ArmFindings) -> Option<f64>,
    ) -> String {
        or_empty(self.own.map_or_else(|| self.of_arm().and_then(of_wall), of_own))
    }

    fn quantile(&self, p: f64, of: fn(&QuantileFindings) -> Option<f64>) -> String {
        let mut quantiles = self.metric.iter().flat_map(|metric| &metric.quantiles);
        or_empty(quantiles.find(|found| found.p.total_cmp(&p).is_eq()).and_then(of))
    }

    fn instances(&self, of: fn(&InstanceFindings) -> Option<f64>) -> String {
        let found = self.metric.and_then(|metric| {
            self.arm.instances.iter().find(|instances| instances.metric == metric.metric)
        });
        or_empty(found.and_then(of))
    }

    /// Beside a neighbour: over the same stack alone.
    fn alone(&self, of: fn(&Interval) -> f64) -> String {
        let found = self.metric.zip(self.arm.beside.as_ref()).and_then(|(metric, beside)| {
            beside.overheads.iter().find(|it| it.metric == metric.metric)
        });
        or_empty(found.map(|it| of(&it.overhead)))
    }
}

/// A metric that the workload could not measure: no number, and why.
pub(super) fn absence(arm: &ArmFindings, absence: &AbsenceFindings) -> Vec<String> {
    let whole = Row::of(arm, None);
    let field = |(name, value): &Field| match *name {
        "arm" | "stack" | "part" | "trial_count" => value(&whole),
        "metric" => absence.metric.clone(),
        "why" => absence.why.clone(),
        _ => String::new(),
    };
    FIELDS.iter().map(field).collect()
}

/// A number, or nothing where it is unknown.
pub(super) fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
