//! The four operations of STREAM on numbers, as wide as this CPU can.
//!
//! By hand, since an agent that is built for every CPU has none of its loops made wide by the
//! compiler. They are what gcc 12 makes of the reference with `-O3 -march=native`: a copy is the C
//! library's, the others are one multiplication and addition in one instruction, and stores of
//! whole lines where there is AVX-512.
//!
//! Source: J. D. McCalpin, STREAM 5.10, `stream.c`.

/// Kernels that take so many numbers at once.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// Instructions that they use, for people.
    pub name: &'static str,
    scale: unsafe fn(&mut [f64], &[f64], f64),
    add: unsafe fn(&mut [f64], &[f64], &[f64]),
    triad: unsafe fn(&mut [f64], &[f64], &[f64], f64),
}

impl Width {
    /// The widest that this CPU has the instructions for.
    #[must_use]
    pub fn of_this_cpu() -> Self {
        Self::all_of_this_cpu().next().unwrap_or(plain::WIDTH)
    }

    /// All that this CPU has the instructions for, the widest first.
    fn all_of_this_cpu() -> impl Iterator<Item = Self> {
        let all = [
            #[cfg(target_arch = "x86_64")]
            (eight::WIDTH, std::arch::is_x86_feature_detected!("avx512f")),
            #[cfg(target_arch = "x86_64")]
            (
                four::WIDTH,
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma"),
            ),
            (plain::WIDTH, true),
        ];
        all.into_iter().filter(|(_, is_there)| *is_there).map(|(width, _)| width)
    }

    /// `target = scale × source`. All slices of a call are of one length.
    pub fn scale(self, target: &mut [f64], source: &[f64], scale: f64) {
        // SAFETY: one is had only of `all_of_this_cpu`, and this CPU has the instructions.
        unsafe { (self.scale)(target, source, scale) }
    }

    /// `target = one + other`.
    pub fn add(self, target: &mut [f64], one: &[f64], other: &[f64]) {
        // SAFETY: as above.
        unsafe { (self.add)(target, one, other) }
    }

    /// `target = one + scale × other`.
    pub fn triad(self, target: &mut [f64], one: &[f64], other: &[f64], scale: f64) {
        // SAFETY: as above.
        unsafe { (self.triad)(target, one, other, scale) }
    }
}

mod plain {
    /// Instructions that every CPU has.
    pub const WIDTH: super::Width = super::Width { name: "plain", scale, add, triad };

    pub fn scale(target: &mut [f64], source: &[f64], scale: f64) {
        target.iter_mut().zip(source).for_each(|(target, source)| *target = scale * source);
    }

    pub fn add(target: &mut [f64], one: &[f64], other: &[f64]) {
        let both = one.iter().zip(other);
        target.iter_mut().zip(both).for_each(|(target, (one, other))| *target = one + other);
    }

    pub fn triad(target: &mut [f64], one: &[f64], other: &[f64], scale: f64) {
        let both = one.iter().zip(other);
        target
            .iter_mut()
            .zip(both)
            .for_each(|(target, (one, other))| *target = one + scale * other);
    }
}

/// The same with so many numbers at once; what is left over is done one by one.
#[cfg(target_arch = "x86_64")]
macro_rules! wide {
    ($name:ident, $shown:literal, $features:literal, $count:literal,
     $set:ident, $load:ident, $store:ident, $add:ident, $multiply:ident, $fused:ident) => {
        mod $name {
            use super::{Width, plain};
            use std::arch::x86_64 as cpu;

            pub const WIDTH: Width = Width { name: $shown, scale, add, triad };

            #[target_feature(enable = $features)]
            pub fn scale(target: &mut [f64], source: &[f64], scale: f64) {
                let scales = cpu::$set(scale);
                let (targets, target_rest) = target.as_chunks_mut::<$count>();
                let (sources, source_rest) = source.as_chunks::<$count>();
                for (target, source) in targets.iter_mut().zip(sources) {
                    // SAFETY: there are so many numbers.
                    let source = unsafe { cpu::$load(source.as_ptr()) };
                    // SAFETY: there is room for so many numbers.
                    unsafe { cpu::$store(target.as_mut_ptr(), cpu::$multiply(scales, source)) };
                }
                plain::scale(target_rest, source_rest, scale);
            }

            #[target_feature(enable = $features)]
            pub fn add(target: &mut [f64], one: &[f64], other: &[f64]) {
                let (targets, target_rest) = target.as_chunks_mut::<$count>();
                let (ones, one_rest) = one.as_chunks::<$count>();
                let (others, other_rest) = other.as_chunks::<$count>();
                for ((target, one), other) in targets.iter_mut().zip(ones).zip(others) {
                    // SAFETY: there are so many numbers.
                    let one = unsafe { cpu::$load(one.as_ptr()) };
                    // SAFETY: there are so many numbers.
                    let other = unsafe { cpu::$load(other.as_ptr()) };
                    // SAFETY: there is room for so many numbers.
                    unsafe { cpu::$store(target.as_mut_ptr(), cpu::$add(one, other)) };
                }
                plain::add(target_rest, one_rest, other_rest);
            }

            #[target_feature(enable = $features)]
            pub fn triad(target: &mut [f64], one: &[f64], other: &[f64], scale: f64) {
                let scales = cpu::$set(scale);
                let (targets, target_rest) = target.as_chunks_mut::<$count>();
                let (ones, one_rest) = one.as_chunks::<$count>();
                let (others, other_rest) = other.as_chunks::<$count>();
                for ((target, one), other) in targets.iter_mut().zip(ones).zip(others) {
                    // SAFETY: there are so many numbers.
                    let one = unsafe { cpu::$load(one.as_ptr()) };
                    // SAFETY: there are so many numbers.
                    let other = unsafe { cpu::$load(other.as_ptr()) };
                    let sum = cpu::$fused(scales, other, one);
                    // SAFETY: there is room for so many numbers.
                    unsafe { cpu::$store(target.as_mut_ptr(), sum) };
                }
                plain::triad(target_rest, one_rest, other_rest, scale);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
wide!(
    eight, "avx512f", "avx512f", 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd,
    _mm512_add_pd, _mm512_mul_pd, _mm512_fmadd_pd
);

#[cfg(target_arch = "x86_64")]
wide!(
    four, "avx2 fma", "avx2,fma", 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd,
    _mm256_add_pd, _mm256_mul_pd, _mm256_fmadd_pd
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_does_the_same_to_every_number() {
        let numbers = |scale: f64| (0..21).map(|n| f64::from(n) * scale).collect::<Vec<f64>>();
        let (one, other) = (numbers(1.0), numbers(10.0));
        for width in Width::all_of_this_cpu() {
            let mut target = vec![0.5; 21];
            width.scale(&mut target, &one, 3.0);
            assert_eq!(target, numbers(3.0), "{width:?}");
            width.add(&mut target, &one, &other);
            assert_eq!(target, numbers(11.0), "{width:?}");
            width.triad(&mut target, &one, &other, 3.0);
            assert_eq!(target, numbers(31.0), "{width:?}");
        }
    }
}
