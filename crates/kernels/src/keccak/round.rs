//! The round of Keccak-p\[1600\] (FIPS 202, section 3.2), written once for every kind of register.

/// The constants that step ι XORs into lane (0, 0) in the 24 rounds of Keccak-f\[1600\].
const IOTA: [u64; 24] = [
    0x0000000000000001,
    0x0000000000008082,
    0x800000000000808a,
    0x8000000080008000,
    0x000000000000808b,
    0x0000000080000001,
    0x8000000080008081,
    0x8000000000008009,
    0x000000000000008a,
    0x0000000000000088,
    0x0000000080008009,
    0x000000008000000a,
    0x000000008000808b,
    0x800000000000008b,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800a,
    0x800000008000000a,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
];

/// The constants of Keccak-p\[1600, ROUNDS\], which is the last `ROUNDS` rounds of Keccak-f\[1600\].
pub(super) const fn constants<const ROUNDS: usize>() -> &'static [u64; ROUNDS] {
    IOTA.last_chunk().expect("at most 24 rounds")
}

/// One round on the state `$a`, an array of 25 registers; `$constant` is the round's constant.
///
/// The caller has these functions in scope. They define the operations on its registers:
/// - `parity(a, b, c, d, e)`: the sum of a column's lanes;
/// - `effect(left, right)`: what step θ adds to each lane of the column between the columns of these parities;
/// - `rho::<R, S>(a, effect)`: that addition, and step ρ's rotation to the left by R, which equals one to the right by
///   S;
/// - `chi(a, b, c)`: step χ, a ⊕ (¬b ∧ c);
/// - `iota(a, constant)`: step ι, the sum with the constant.
macro_rules! round {
    ($a:ident, $constant:expr) => {{
        let c0 = parity($a[0], $a[5], $a[10], $a[15], $a[20]);
        let c1 = parity($a[1], $a[6], $a[11], $a[16], $a[21]);
        let c2 = parity($a[2], $a[7], $a[12], $a[17], $a[22]);
        let c3 = parity($a[3], $a[8], $a[13], $a[18], $a[23]);
        let c4 = parity($a[4], $a[9], $a[14], $a[19], $a[24]);
        // In this order each one can take the register of a parity that is no longer needed: 32 registers are just
        // enough.
        let d0 = effect(c4, c1);
        let d2 = effect(c1, c3);
        let d4 = effect(c3, c0);
        let d1 = effect(c0, c2);
        let d3 = effect(c2, c4);

        // Steps ρ and π take the lanes of each plane from the whole state, and χ mixes them.
        let b0 = rho::<0, 0>($a[0], d0);
        let b1 = rho::<44, 20>($a[6], d1);
        let b2 = rho::<43, 21>($a[12], d2);
        let b3 = rho::<21, 43>($a[18], d3);
        let b4 = rho::<14, 50>($a[24], d4);
        let e0 = iota(chi(b0, b1, b2), $constant);
        let e1 = chi(b1, b2, b3);
        let e2 = chi(b2, b3, b4);
        let e3 = chi(b3, b4, b0);
        let e4 = chi(b4, b0, b1);

        let b0 = rho::<28, 36>($a[3], d3);
        let b1 = rho::<20, 44>($a[9], d4);
        let b2 = rho::<3, 61>($a[10], d0);
        let b3 = rho::<45, 19>($a[16], d1);
        let b4 = rho::<61, 3>($a[22], d2);
        let e5 = chi(b0, b1, b2);
        let e6 = chi(b1, b2, b3);
        let e7 = chi(b2, b3, b4);
        let e8 = chi(b3, b4, b0);
        let e9 = chi(b4, b0, b1);

        let b0 = rho::<1, 63>($a[1], d1);
        let b1 = rho::<6, 58>($a[7], d2);
        let b2 = rho::<25, 39>($a[13], d3);
        let b3 = rho::<8, 56>($a[19], d4);
        let b4 = rho::<18, 46>($a[20], d0);
        let e10 = chi(b0, b1, b2);
        let e11 = chi(b1, b2, b3);
        let e12 = chi(b2, b3, b4);
        let e13 = chi(b3, b4, b0);
        let e14 = chi(b4, b0, b1);

        let b0 = rho::<27, 37>($a[4], d4);
        let b1 = rho::<36, 28>($a[5], d0);
        let b2 = rho::<10, 54>($a[11], d1);
        let b3 = rho::<15, 49>($a[17], d2);
        let b4 = rho::<56, 8>($a[23], d3);
        let e15 = chi(b0, b1, b2);
        let e16 = chi(b1, b2, b3);
        let e17 = chi(b2, b3, b4);
        let e18 = chi(b3, b4, b0);
        let e19 = chi(b4, b0, b1);

        let b0 = rho::<62, 2>($a[2], d2);
        let b1 = rho::<55, 9>($a[8], d3);
        let b2 = rho::<39, 25>($a[14], d4);
        let b3 = rho::<41, 23>($a[15], d0);
        let b4 = rho::<2, 62>($a[21], d1);
        let e20 = chi(b0, b1, b2);
        let e21 = chi(b1, b2, b3);
        let e22 = chi(b2, b3, b4);
        let e23 = chi(b3, b4, b0);
        let e24 = chi(b4, b0, b1);

        $a = [
            e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14, e15, e16, e17, e18, e19, e20, e21, e22,
            e23, e24,
        ];
    }};
}
pub(super) use round;
