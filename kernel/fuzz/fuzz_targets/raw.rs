//! Arbitrary bytes, arbitrary arguments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_kernel_fuzz::Arguments;

fuzz_target!(|input: (Arguments, &[u8])| input.0.decode(input.1));
