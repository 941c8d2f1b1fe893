//! Prints the names of the kernels' modules, or the source of the module whose name is given: for `scripts/make-ptx`.

use phalanx_gpu::Module;

fn main() {
    match std::env::args().nth(1) {
        None => Module::ALL.iter().for_each(|module| println!("{}", module.name())),
        Some(name) => {
            let module = Module::ALL.into_iter().find(|module| module.name() == name);
            print!("{}", module.unwrap_or_else(|| panic!("no module is called {name}")).source());
        }
    }
}
