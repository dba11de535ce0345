//! Intervals and tests for pass rates.

/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 runs")]
fn to_float(number: u64) -> f64 {
    number as f64
}

/// A proportion of passed runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Proportion {
    pub(crate) passed: u64,
    pub(crate) total: u64,
}

impl Proportion {
    pub(crate) fn rate(self) -> f64 {
        match self.total {
            0 => 0.0,
            total => to_float(self.passed) / to_float(total),
        }
    }

    /// Returns the 95 % Wilson score interval.
    pub(crate) fn interval(self) -> (f64, f64) {
        if self.total == 0 {
            return (0.0, 1.0);
        }
        let (n, p) = (to_float(self.total), self.rate());
        let z = Z * Z / n;
        let centre = (p + z / 2.0) / (1.0 + z);
        let half = Z / (1.0 + z) * (p * (1.0 - p) / n + z / (4.0 * n)).sqrt();
        ((centre - half).max(0.0), (centre + half).min(1.0))
    }
}

/// Returns the 95 % interval of the difference of two independent proportions (Newcombe's method,
/// based on Wilson intervals).
pub(crate) fn difference(before: Proportion, after: Proportion) -> (f64, f64) {
    let (p, q) = (after.rate(), before.rate());
    let ((low_p, high_p), (low_q, high_q)) = (after.interval(), before.interval());
    let lower_error = ((p - low_p).powi(2) + (high_q - q).powi(2)).sqrt();
    let upper_error = ((high_p - p).powi(2) + (q - low_q).powi(2)).sqrt();
    ((p - q - lower_error).max(-1.0), (p - q + upper_error).min(1.0))
}

/// Returns the p-value of a two-sided sign test for `better` and `worse` changes.
pub(crate) fn sign_test(better: u64, worse: u64) -> f64 {
    let n = better + worse;
    if n == 0 {
        return 1.0;
    }
    // Uses logarithms, because the coefficients exceed the range of floats.
    let choose = |k: u64| (1..=k).map(|i| (to_float(n - k + i) / to_float(i)).ln()).sum::<f64>();
    let half = to_float(n) * 0.5_f64.ln();
    let tail: f64 = (0..=better.min(worse)).map(|k| (choose(k) + half).exp()).sum();
    (2.0 * tail).min(1.0)
}

/// Returns an unbiased estimate of the probability that `k` runs of a case all pass.
pub(crate) fn all_pass(passed: u64, total: u64, k: u64) -> f64 {
    if k > total {
        return 0.0;
    }
    (0..k).map(|i| to_float(passed.saturating_sub(i)) / to_float(total - i)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(one: f64, other: f64) -> bool {
        (one - other).abs() < 0.001
    }

    #[test]
    fn confidence_intervals_match_the_literature() {
        let (low, high) = Proportion { passed: 8, total: 10 }.interval();
        assert!(is_close(low, 0.490) && is_close(high, 0.943), "{low} {high}");
        let (low, high) = Proportion { passed: 0, total: 10 }.interval();
        assert!(is_close(low, 0.0) && is_close(high, 0.278), "{low} {high}");
        // Newcombe 1998, 56/70 compared to 48/80.
        let (low, high) =
            difference(Proportion { passed: 48, total: 80 }, Proportion { passed: 56, total: 70 });
        assert!(is_close(low, 0.052) && is_close(high, 0.334), "{low} {high}");
    }

    #[test]
    fn sign_test_is_exact() {
        assert!(is_close(sign_test(0, 0), 1.0));
        assert!(is_close(sign_test(5, 0), 0.0625));
        assert!(is_close(sign_test(8, 2), 0.109));
        assert!(sign_test(2_000, 1_000) < 1e-9);
    }

    #[test]
    fn all_pass_probability_is_computed() {
        assert!(is_close(all_pass(3, 3, 3), 1.0));
        assert!(is_close(all_pass(2, 3, 3), 0.0));
        assert!(is_close(all_pass(2, 4, 2), 1.0 / 6.0));
    }
}
