//! Findings to write reports from: a run as one would send it to a colleague, and an enormous one.

use crate::finding::*;
use std::collections::BTreeMap;
use surtax_instrument::amount::{CPU_SYSTEM, CPU_USER, MEMORY_PEAK};

/// A generator of plausible noise; the same every time.
struct Noise(u64);

impl Noise {
    /// Between 0 and 1.
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 33).unwrap()) / f64::from(1u32 << 31)
    }

    /// Around 1, skewed to the slow side as wall times are.
    fn around_one(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..4).map(|_| self.next()).sum::<f64>() / 4.0 - 0.5;
        1.0 + spread * (sum + 0.6 * self.next().powi(6))
    }
}

fn ns(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and small"
    )]
    let ns = value as u64;
    ns
}

pub fn key_value(key: &str, value: &str, source: &str) -> KeyValue {
    KeyValue { key: key.into(), value: value.into(), source: source.into() }
}

pub fn interval(ratio: f64, half: f64) -> Interval {
    Interval {
        ratio,
        low: ratio * (1.0 - half),
        high: ratio * (1.0 + half * 1.1),
        confidence: 0.95,
    }
}

fn metrics(median: f64, ratio: f64, compared: Option<Interval>) -> Vec<MetricFindings> {
    let metric = |name: &str, unit: &str, median: f64| MetricFindings {
        metric: name.into(),
        unit: unit.into(),
        better: "lower".into(),
        median,
        min: median * 0.97,
        max: median * 1.09,
        quartiles: (median * 0.99, median * 1.02),
        quantiles: if name == "wall_ns" { quantiles(median) } else { Vec::new() },
        overhead: compared,
        overhead_at_look: None,
        judgement: None,
        claimed_by: None,
    };
    vec![
        metric("wall_ns", "ns", median),
        metric("cpu_user_ns", "ns", 7.9e9),
        metric("cpu_system_ns", "ns", 0.64e9 * ratio),
        metric("cpu_others_ns", "ns", 3.1e8 * (ratio - 1.0).max(0.01)),
        metric("memory_peak_bytes", "bytes", 412e6 + 5e6 * ratio),
        metric("memory_others_peak_bytes", "bytes", 38e6 * ratio),
        metric("start_ns", "ns", 1.2e7 * ratio * ratio),
    ]
}

/// An arm that ran: its overhead, its share of CPU by others, and its verdict.
pub fn arm(place: u32, stack: &str, part: &str, ratio: f64, verdict: Verdict) -> ArmFindings {
    let median = 2.412e9 * ratio;
    let compared = (part != "baseline").then(|| interval(ratio, 0.012));
    ArmFindings {
        arm: place,
        stack: stack.into(),
        name: format!("{stack}{}", if part == "baseline-again" { " (again)" } else { "" }),
        part: part.into(),
        trials: Vec::new(),
        trial_count: 0,
        disturbed_count: 0,
        repeated_count: 0,
        metrics: metrics(median, ratio, compared),
        because: because(&verdict),
        histograms: vec![latency(ratio)],
        instances: Vec::new(),
        beside: None,
        absences: Vec::new(),
        warm_up: None,
        more_blocks: (verdict == Verdict::Inconclusive).then_some(26),
        overhead: compared,
        block_count: 14,
        progress: compared.map_or_else(Vec::new, progress),
        p_value: compared.map(|_| 0.002),
        p_value_adjusted: compared.map(|_| 0.01),
        detectable_effect: compared.map(|_| 0.018),
        verdict,
        payers: vec![payer("the command", "workload", 8.5e9)],
        bill_gap: None,
        page_cache_bytes: None,
        time_parts: [("cpu-user", 0.6), ("waited-for-disk", 0.1), ("elsewhere", 0.3)]
            .map(|(part, share)| TimePart { part: part.into(), ns: share * median })
            .into(),
        machines: Vec::new(),
        uses: Vec::new(),
        steals: Vec::new(),
        energies: Vec::new(),
        timeline: None,
        why: None,
        evidence: vec![LevelEvidence {
            layer: stack.into(),
            facts: vec![
                key_value("kernel.release", "6.8.0-45-generic", "uname(2)"),
                key_value("cgroup.cpu.max", "400000 100000", "/sys/fs/cgroup/cpu.max"),
            ],
        }],
        stdout_hashes: vec![
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        ],
        exit_statuses: vec!["exit 0".into()],
        trouble: None,
    }
}

/// Returns what a verdict on a metric of a workload rests on.
pub fn judgement(verdict: Verdict) -> JudgementFindings {
    JudgementFindings {
        step_share: Some(0.001),
        because: because(&verdict),
        verdict,
        block_count: 14,
        more_blocks: None,
        p_value: Some(0.002),
        p_value_adjusted: Some(0.01),
        detectable_effect: Some(0.018),
        noise_floor: Some(interval(1.001, 0.01)),
    }
}

/// Those of 14 trials: too few for the tails.
fn quantiles(median: f64) -> Vec<QuantileFindings> {
    let of = |p: f64, share: Option<f64>| QuantileFindings {
        p,
        value: share.map(|share| median * share),
        low: share.map(|share| median * share * 0.99),
        high: share.map(|share| median * share * 1.02),
        confidence: share.map(|_| 0.96),
        why: share.is_none().then(|| "an interval of this quantile takes 36 values".into()),
    };
    vec![of(0.5, Some(1.0)), of(0.9, None), of(0.99, None)]
}

/// A million latencies with a tail that is longer the slower the arm is.
fn latency(ratio: f64) -> DistributionFindings {
    let point = |step: u32| {
        let nines = f64::from(step) / 10.0;
        let value_ns = ns(21_000.0 * ratio * (1.0 + 0.08 * ratio * nines.powi(3)));
        PercentilePoint { share: 1.0 - 0.1f64.powf(nines), value_ns }
    };
    let points: Vec<PercentilePoint> = (0..=50).map(point).collect();
    let highest_ns = points.last().map(|last| last.value_ns.saturating_mul(3));
    DistributionFindings { metric: "latency".into(), value_count: 1_000_000, highest_ns, points }
}

/// An interval that narrows from the third block on.
fn progress(last: Interval) -> Vec<ProgressPoint> {
    let point = |block_count: u32| {
        let wide = 0.012 * (14.0 / f64::from(block_count)).powf(0.8);
        let off = 1.0 + 0.3 * wide * f64::from(block_count * 5 % 7 % 3) - 0.3 * wide;
        ProgressPoint { block_count, overhead: interval(last.ratio * off, wide) }
    };
    let mut points: Vec<ProgressPoint> = (3..14).map(point).collect();
    points.push(ProgressPoint { block_count: 14, overhead: last });
    points
}

fn because(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Baseline => "what the others are compared with".into(),
        Verdict::Differs => "slower than native, by more than the noise floor".into(),
        Verdict::Equivalent => "within ±3 % of native".into(),
        Verdict::Inconclusive => {
            "its interval crosses the margin of ±3 %; about 26 more blocks would settle it".into()
        }
        Verdict::Invalid { reason, .. } => format!("no number: {reason}"),
    }
}

pub fn payer(name: &str, role: &str, cpu_ns: f64) -> PayerFindings {
    PayerFindings {
        payer: name.into(),
        role: role.into(),
        level: 0,
        cpu_ns,
        amounts: Medians(BTreeMap::from([
            (CPU_USER, cpu_ns * 0.8),
            (CPU_SYSTEM, cpu_ns * 0.2),
            (MEMORY_PEAK, 41e6),
        ])),
        is_shared: false,
    }
}

/// An arm without numbers.
pub fn gap(place: u32, stack: &str, why: &str, trouble: ArmFailure) -> ArmFindings {
    let verdict = Verdict::Invalid { gap: Gap::NotAvailable, reason: why.into() };
    let mut gap = arm(place, stack, "compared", 1.0, verdict);
    gap.metrics.clear();
    gap.overhead = None;
    gap.block_count = 0;
    gap.progress.clear();
    (gap.p_value, gap.p_value_adjusted, gap.detectable_effect) = (None, None, None);
    gap.payers.clear();
    gap.evidence.clear();
    gap.stdout_hashes.clear();
    gap.exit_statuses.clear();
    gap.trouble = Some(trouble);
    gap
}

fn others() -> DisturbanceFinding {
    DisturbanceFinding {
        key: "others_cpu_ratio".into(),
        value: 0.93,
        limit: 0.2,
        what: "others used 93 % of a CPU".into(),
    }
}

/// Runs blocks of all arms in turn, each trial with its arm's wall time.
pub fn run_trials(findings: &mut Findings, blocks: u32) {
    let mut noise = Noise(7);
    let mut at_ns = 0.0;
    for block in 0..blocks {
        for (position, arm) in findings.arms.iter_mut().enumerate() {
            let median = arm.metrics.first().map_or(2.4e9, |metric| metric.median);
            let wall_ns = median * noise.around_one(0.06);
            let unavailable = arm.metrics.is_empty() && arm.exit_statuses.is_empty();
            let failed = arm.metrics.is_empty() && !unavailable;
            let disturbed = noise.next() > 0.985 && !failed && !unavailable;
            let marked = noise.next() > 0.93 && !disturbed && !failed && !unavailable;
            if unavailable && block > 0 {
                continue;
            }
            let (state, why) = match (unavailable, failed, disturbed) {
                (true, ..) => ("unavailable", "no hypervisor"),
                (_, true, _) => ("failed", "exit 2"),
                (.., true) => ("disturbed", "disturbed, and repeated"),
                _ => ("done", ""),
            };
            let trial = TrialPoint {
                block,
                position: u32::try_from(position).unwrap(),
                attempt: 1,
                at_ns: ns(at_ns),
                wall_ns: (!unavailable).then(|| ns(if failed { wall_ns * 0.2 } else { wall_ns })),
                start_ns: Some(11_000_000),
                usage: TrialUsage::default(),
                metrics: BTreeMap::new(),
                state: state.into(),
                why: why.into(),
                remedy: None,
                disturbances: (disturbed || marked).then(others).into_iter().collect(),
            };
            arm.disturbed_count += u32::from(marked);
            arm.repeated_count += u32::from(disturbed);
            at_ns += wall_ns + 3e8;
            arm.trial_count += u32::from(state == "done");
            arm.trials.push(trial);
        }
    }
    findings.run.wall_ns = ns(at_ns);
    findings.run.blocks_done = blocks;
    findings.run.blocks_planned = Some(blocks);
}

/// A run as one would send it to a colleague.
pub fn colleague() -> Findings {
    let mut findings = empty();
    let differs = || Verdict::Differs;
    let mut gvisor = arm(3, "gvisor:platform=systrap", "compared", 1.84, differs());
    gvisor.payers.push(payer("sentry", "guest-kernel", 4.1e9));
    gvisor.payers.push(payer("gofer", "engine", 0.7e9));
    let mut docker = arm(4, "docker", "compared", 1.021, Verdict::Inconclusive);
    docker.metrics[0].overhead = Some(interval(1.021, 0.024));
    docker.payers.push(payer("dockerd, containerd, shim", "engine", 0.31e9));
    let mut qemu = arm(5, "qemu:accel=tcg,mem=2G", "compared", 7.94, differs());
    qemu.payers.insert(1, payer("vCPU threads", "hypervisor", 31e9));
    qemu.payers.insert(2, payer("guest kernel", "guest-kernel", 6.1e9));
    qemu.payers.push(payer("surtax", "surtax", 0.8e9));
    let mut nested = arm(6, "qemu:accel=tcg,mem=2G,net=virtio+runc", "compared", 8.21, differs());
    nested.payers.insert(1, payer("vCPU threads", "hypervisor", 32.4e9));
    nested.payers.insert(2, payer("guest kernel", "guest-kernel", 6.4e9));
    nested.evidence.push(LevelEvidence {
        layer: "runc".into(),
        facts: vec![key_value("runc.version", "1.2.4", "runc --version")],
    });
    let kvm = ArmFailure {
        why: "/dev/kvm opens, but a reference guest did not boot within 20 s".into(),
        remedy: Some("run on a machine with nested virtualization, or use `accel=tcg`".into()),
        stderr: None,
    };
    let podman = ArmFailure {
        why: "the command failed in all of 14 trials: exit 2".into(),
        remedy: Some("surtax enter podman -- make -j4".into()),
        stderr: Some(
            "\\x1b[31mmake: *** [Makefile:14: all] Error 2\\x1b[0m\ncc: fatal error: cannot \
             execute 'cc1': posix_spawnp: No such file or directory\ncompilation terminated."
                .into(),
        ),
    };
    let mut failed = gap(8, "podman", "the command failed", podman);
    failed.exit_statuses = vec!["exit 2".into()];
    findings.arms = vec![
        arm(0, "native", "baseline", 1.0, Verdict::Baseline),
        arm(1, "native", "baseline-again", 1.004, Verdict::Equivalent),
        arm(2, "runc", "compared", 1.007, Verdict::Equivalent),
        gvisor,
        docker,
        qemu,
        nested,
        gap(7, "qemu", "/dev/kvm opens, but a reference guest did not boot", kvm),
        failed,
    ];
    run_trials(&mut findings, 14);
    findings
}

/// A run without arms.
pub fn empty() -> Findings {
    let caution = |code: &str, finding: &str, advice: &str| Caution {
        code: code.into(),
        finding: finding.into(),
        advice: advice.into(),
        stacks: Vec::new(),
    };
    Findings {
        schema_version: 1,
        surtax_version: "0.1.0".into(),
        run: RunFacts {
            id: "01925b1e-7c3a-7c55-9a60-0f5d2e7c1b44".into(),
            title: "Building zlib under seven layers".into(),
            command: ["make", "-j4", "CFLAGS=-O2 -g"].map(crate::plan::Word::from).into(),
            workload: None,
            cwd: "/home/ada/zlib-1.3.1".into(),
            repeat_with: "cd /home/ada/zlib-1.3.1 && surtax compare --seed 42 --in \
                          native,runc,gvisor,docker,qemu:accel=tcg -- make -j4 'CFLAGS=-O2 -g'"
                .into(),
            began_at: "2026-03-14T09:26:53Z".into(),
            seed: 42,
            blocks_planned: None,
            blocks_done: 0,
            state: "finished".into(),
            wall_ns: 0,
            baseline: "native".into(),
            equivalence_margin: 0.03,
            precision: None,
            is_of_fixed_time: false,
            about: String::new(),
            conduct: String::new(),
            plan_digest: crate::finding::plan_digest::PlanDigest::default(),
        },
        machine: vec![
            key_value("cpu_model", "AMD EPYC 9354P 32-Core Processor", "/proc/cpuinfo"),
            key_value("cpus_online", "8", "/sys/devices/system/cpu/online"),
            key_value("memory_total_bytes", "33608294400", "/proc/meminfo"),
            key_value("kernel_release", "6.8.0-45-generic", "uname(2)"),
            key_value("os", "Ubuntu 24.04.1 LTS", "/etc/os-release"),
            key_value("virtualised", "yes", "CPUID leaf 0x40000000"),
            key_value("governor", "performance", "/sys/devices/system/cpu/cpu0/cpufreq"),
        ],
        arms: Vec::new(),
        noise_floor: Some(interval(1.004, 0.009)),
        confirmed: Vec::new(),
        meters: Vec::new(),
        thresholds: Vec::new(),
        cautions: vec![
            caution(
                "noisy-machine",
                "other programs used 7 % of the CPU during 3 of 14 blocks",
                "stop them, or pin the run to isolated CPUs with `--cpuset 4-7`",
            ),
            caution(
                "few-trials",
                "docker is inconclusive: its interval is wider than the margin of ±3 %",
                "surtax resume zlib.surtax --blocks 40 would likely settle it",
            ),
        ],
    }
}
