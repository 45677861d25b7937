//! The keys of a workload file, table by table.

/// Keys of a file.
pub(super) const KEYS: [&str; 19] = [
    "about", "command", "beside", "server", "stop_server", "udp", "listens", "setup", "cleanup",
    "packages", "scratch", "alone", "fixed_time", "parameters", "version", "check", "metric",
    "histogram", "setting",
];

/// Keys of a parameter.
pub(super) const PARAMETER_KEYS: [&str; 7] =
    ["about", "default", "min", "max", "words", "pattern", "instances"];

/// Keys of `version`.
pub(super) const VERSION_KEYS: [&str; 4] = ["command", "jsonpath", "regex", "known"];

/// Keys of a check.
pub(super) const CHECK_KEYS: [&str; 5] = ["about", "jsonpath", "regex", "min", "max"];

/// Keys of a metric.
pub(super) const METRIC_KEYS: [&str; 10] =
    ["name", "unit", "better", "jsonpath", "regex", "min", "max", "optional", "why", "instances"];

/// Keys of a histogram.
pub(super) const HISTOGRAM_KEYS: [&str; 5] = ["name", "unit", "jsonpath", "min", "max"];

/// Keys of a setting.
pub(super) const SETTING_KEYS: [&str; 3] = ["name", "jsonpath", "regex"];
