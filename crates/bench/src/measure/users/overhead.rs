//! P2's model of the cost of moving data to a GPU and back: section 3.9, Eqs. 7 to 10.

/// The data to move, and the connection. Lengths are in bytes, times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The number of users: N.
    pub users: f64,
    /// The length of a user's plaintext: PL.
    pub plaintext: f64,
    /// The length of a key: KL.
    pub key: f64,
    /// The length of a slice: SliceLen.
    pub slice: f64,
    /// The length of the location of a slice's key: KeyLoc.
    pub key_location: f64,
    /// Bytes per second: BW.
    pub bandwidth: f64,
    /// The time to start one transfer.
    pub delay: f64,
}

/// The bandwidth that the paper measured on its platform 1, in bytes a second (section 4.5).
pub const PLATFORM_1: f64 = 8405.55e6;
/// On its platform 2.
pub const PLATFORM_2: f64 = 6348.53e6;

impl Transfer {
    /// One user after another (GNC): Eq. 7.
    pub fn uncoalesced(&self) -> f64 {
        self.users * ((2.0 * self.plaintext + self.key) / self.bandwidth + 2.0 * self.delay)
    }

    /// All users at once in slices (GCS), each length a multiple of a slice: Eq. 8.
    pub fn sliced(&self) -> f64 {
        self.at_once(self.locations())
    }

    /// All users at once, not in slices (GCNS): Eq. 9.
    pub fn unsliced(&self) -> f64 {
        self.at_once(0.0)
    }

    /// All users at once in slices (GCS), padded to them, by half a slice on average: Eq. 10.
    pub fn sliced_irregular(&self) -> f64 {
        self.at_once(self.slice / 2.0 + self.locations())
    }

    fn at_once(&self, more: f64) -> f64 {
        self.users * (2.0 * self.plaintext + self.key + more) / self.bandwidth + 2.0 * self.delay
    }

    fn locations(&self) -> f64 {
        self.plaintext / self.slice * self.key_location
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's setting: AES-128, slices of 4 KB, 4 bytes a slice, and 64 KB a user, its example of section 3.4.
    fn on(bandwidth: f64) -> Transfer {
        let delay = 10e-6;
        Transfer { users: 1000.0, plaintext: 65_536.0, key: 16.0, slice: 4096.0, key_location: 4.0, bandwidth, delay }
    }

    #[track_caller]
    fn near(seconds: f64, milliseconds: f64) {
        assert!((seconds * 1e3 - milliseconds).abs() < 5e-5, "{seconds} s, not {milliseconds} ms");
    }

    /// Worked by hand from the equations: 131,088 bytes a user, 64 more for 16 slices, 2048 more of padding.
    #[test]
    fn platform_1() {
        let transfer = on(PLATFORM_1);
        near(transfer.uncoalesced(), 15.5954 + 20.0);
        near(transfer.sliced(), 15.6030 + 0.02);
        near(transfer.unsliced(), 15.5954 + 0.02);
        near(transfer.sliced_irregular(), 15.8467 + 0.02);
    }

    #[test]
    fn platform_2() {
        let transfer = on(PLATFORM_2);
        near(transfer.uncoalesced(), 20.6486 + 20.0);
        near(transfer.sliced(), 20.6586 + 0.02);
        near(transfer.unsliced(), 20.6486 + 0.02);
        near(transfer.sliced_irregular(), 20.9812 + 0.02);
    }

    /// The paper's conclusion: coalescing removes N − 1 of N delays, slicing costs little, padding more.
    #[test]
    fn conclusions() {
        for transfer in [on(PLATFORM_1), on(PLATFORM_2)] {
            let saved = transfer.uncoalesced() - transfer.unsliced();
            assert!((saved - 2.0 * 999.0 * transfer.delay).abs() < 1e-12);
            assert!(transfer.unsliced() < transfer.sliced() && transfer.sliced() < transfer.sliced_irregular());
            assert!(transfer.sliced() / transfer.unsliced() < 1.001);
            assert!(transfer.sliced_irregular() / transfer.unsliced() < 1.02);
        }
    }
}
