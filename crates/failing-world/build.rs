//! Compiles what stands between the program and the kernel.

fn main() {
    println!("cargo::rerun-if-changed=src/world.c");
    cc::Build::new().file("src/world.c").warnings(true).extra_warnings(true).opt_level(2).compile("world");
}
