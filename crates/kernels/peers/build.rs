//! Finds out which kernels XKCP has: those of the processors that it was built for.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(xkcp_avx512)");
    println!("cargo::rerun-if-env-changed=XKCP_RS_TARGET");
    if std::env::var("XKCP_RS_TARGET").is_ok_and(|target| target == "AVX512") {
        println!("cargo::rustc-cfg=xkcp_avx512");
    }
}
