//! Confidence: how often an interval made this way holds the truth.
//!
//! What is promised and the level at which an interval is made are two numbers: see
//! [`Method::spent`](crate::Method::spent).

/// A share of confidence, strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Confidence(f64);

impl Confidence {
    /// 95 %, what surtax reports unless asked otherwise.
    pub const P95: Self = Self(0.95);
    /// 99 %.
    pub const P99: Self = Self(0.99);

    /// A share such as 0.9; `None` when it is not strictly between 0 and 1.
    ///
    /// ```
    /// use surtax_statistics::Confidence;
    ///
    /// assert_eq!(Confidence::new(0.95), Some(Confidence::P95));
    /// assert_eq!(Confidence::new(95.0), None);
    /// ```
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share < 1.0).then_some(Self(share))
    }

    /// The share.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0
    }

    /// The level at which to make an interval that spends only a part of the error that is
    /// promised: half of the 5 % of 95 % leaves 97.5 %.
    pub(crate) fn spending(self, part: f64) -> Self {
        Self(1.0 - part * (1.0 - self.0))
    }

    /// Returns the chance that the truth lies beyond one end: 0.025 for 95 %.
    pub(crate) fn tail(self) -> f64 {
        (1.0 - self.0) / 2.0
    }
}
