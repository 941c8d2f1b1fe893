//! The equations of P1 that its experiment uses.

/// Eq. 1: the computing power of a GPU divided by that of the CPU cores beside it, from multiprocessors, warp size and
/// clock, and from cores (one of which serves the GPU) and clock. Both clocks are in the same unit.
pub fn ratio(multiprocessors: f64, warp: f64, gpu_clock: f64, cores: f64, cpu_clock: f64) -> f64 {
    multiprocessors * warp * gpu_clock / ((cores - 1.0) * cpu_clock)
}

/// Eq. 5, Amdahl's law: the highest speedup of a program by `n` processors, if they share the part `parallel` of its
/// serial time.
pub fn amdahl(parallel: f64, n: f64) -> f64 {
    1.0 / (1.0 - parallel + parallel / n)
}

/// Eq. 6: the efficiency of a speedup on CPU cores.
pub fn cpu_efficiency(speedup: f64, cores: f64) -> f64 {
    speedup / cores
}

/// Eq. 7: the efficiency of a speedup on a GPU, which counts as `ratio` × `cores` CPU cores.
pub fn gpu_efficiency(speedup: f64, ratio: f64, cores: f64) -> f64 {
    speedup / (ratio * cores)
}

/// Eq. 8: the efficiency of a speedup on a GPU and all CPU cores but one.
pub fn hybrid_efficiency(speedup: f64, ratio: f64, cores: f64) -> f64 {
    speedup / (ratio * cores + cores - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper;

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.005
    }

    #[test]
    fn the_printed_parameters_give_the_figures_that_follow_from_them() {
        let p1 = paper::p1();
        let symbol = |platform: &str, symbol: &str| p1.parameter(symbol, Some(platform)).unwrap();
        let ratio = |platform: &str| {
            let (gpu_clock, cpu_clock) = (symbol(platform, "Gf"), symbol(platform, "Cf") * 1000.0);
            ratio(symbol(platform, "Gmp"), symbol(platform, "Ws"), gpu_clock, symbol(platform, "Cc"), cpu_clock)
        };
        assert!(near(ratio("1"), 9.79), "{}", ratio("1"));
        assert!(near(ratio("2"), 22.54), "{}", ratio("2"));
        // The results of the equations for the printed speedups, as the doubt in the data file says. The printed
        // efficiencies differ.
        assert!(near(cpu_efficiency(15.35, 16.0), 0.959));
        assert!(near(gpu_efficiency(39.52, ratio("1"), 16.0), 0.252));
        assert!(near(hybrid_efficiency(44.18, ratio("1"), 16.0), 0.257));
    }

    #[test]
    fn amdahl_is_bounded_by_the_serial_part() {
        assert_eq!(amdahl(0.0, 16.0), 1.0);
        assert_eq!(amdahl(1.0, 16.0), 16.0);
        assert!(near(amdahl(0.5, f64::MAX), 2.0));
        // P1's serial program: AES at 0.046357 GB/s of 0.0345194 GB/s in all, on 16 cores.
        assert!(near(amdahl(0.0345194 / 0.046357, 16.0), 3.31));
    }
}
