//! The sum of what running requests may cost.

/// The reservations of running requests, in US dollars.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct OpenReservations {
    count: usize,
    total: f64,
}

impl OpenReservations {
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    pub(super) fn add(&mut self, amount: f64) {
        self.count += 1;
        self.total += amount;
    }

    /// Makes one of two reservations, which are removed together.
    pub(super) fn join(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    pub(super) fn remove(&mut self, amount: f64) {
        self.count = self.count.saturating_sub(1);
        // Sums of fractions differ by the order.
        self.total = if self.count == 0 { 0.0 } else { (self.total - amount).max(0.0) };
    }
}
