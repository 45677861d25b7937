//! Maps and programs of BPF: as much as counting needs.
//!
//! The kernel proves each program before it takes it: that it ends, and touches nothing but its own
//! stack, its context and the maps.
//!
//! Source: `bpf(2)`; Linux `Documentation/bpf/standardization/instruction-set.rst`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;

const HASH: u32 = 1;
const ARRAY: u32 = 2;
const TRACE_POINT: u32 = 5;

/// Memory is taken for a key when there is one.
const NO_PREALLOC: u32 = 1;

/// A map to numbers of 64 bits.
pub(super) struct Map(OwnedFd);

impl Map {
    /// One that has no keys yet, which are so many bytes long, and at most so many.
    pub(super) fn hash(key_bytes: u32, most: u32) -> io::Result<Self> {
        let mut request = [HASH, key_bytes, 8, most, NO_PREALLOC, 0, 0, 0];
        descriptor(MAP_CREATE, &mut request).map(Self)
    }

    /// One of so many zeroes.
    pub(super) fn array(count: u32) -> io::Result<Self> {
        let mut request = [ARRAY, 4, 8, count, 0, 0, 0, 0];
        descriptor(MAP_CREATE, &mut request).map(Self)
    }

    /// Sets the value of a key of 32 bits.
    pub(super) fn set(&self, key: u32, value: u64) -> io::Result<()> {
        let mut value = value;
        self.element(MAP_UPDATE, key, &mut value)
    }

    /// Returns the value of a key of 32 bits.
    pub(super) fn get(&self, key: u32) -> io::Result<u64> {
        let mut value = 0;
        self.element(MAP_LOOKUP, key, &mut value).map(|()| value)
    }

    fn element(&self, command: libc::c_int, key: u32, value: &mut u64) -> io::Result<()> {
        let descriptor = u64::from(self.0.as_raw_fd().cast_unsigned());
        let mut request = [descriptor, address(&raw const key), address(&raw mut *value), 0];
        bpf(command, &mut request).map(drop)
    }
}

/// A register.
#[derive(Clone, Copy)]
pub(super) struct Register(u8);

pub(super) const R0: Register = Register(0);
pub(super) const R1: Register = Register(1);
pub(super) const R2: Register = Register(2);
pub(super) const R3: Register = Register(3);
pub(super) const R4: Register = Register(4);
pub(super) const R6: Register = Register(6);
pub(super) const R7: Register = Register(7);
pub(super) const R8: Register = Register(8);
pub(super) const R9: Register = Register(9);
/// The end of the stack.
pub(super) const R10: Register = Register(10);

/// A function of the kernel's.
#[derive(Clone, Copy)]
pub(super) enum Helper {
    LookUp = 1,
    Update = 2,
    Delete = 3,
    /// The process in the upper half, the thread in the lower.
    CurrentTask = 14,
    /// Copies a string of the task's, with its end; its length, or less than 0.
    UserString = 114,
}

/// Manner of setting a value.
#[derive(Clone, Copy)]
pub(super) enum Update {
    /// Allowed whether or not there is one.
    Any = 0,
    /// Allowed only where there is none.
    New = 1,
}

/// The begin of what is skipped.
#[must_use]
pub(super) struct Skip(usize);

/// Instructions of a program.
#[derive(Default)]
pub(super) struct Code {
    words: Vec<u64>,
    /// Places of the jumps to the end.
    leaving: Vec<usize>,
}

impl Code {
    fn add(&mut self, operation: u8, to: Register, from: Register, offset: i16, value: i32) {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = value.to_le_bytes();
        let registers = to.0 | from.0 << 4;
        self.words.push(u64::from_le_bytes([operation, registers, low, high, a, b, c, d]));
    }

    /// Keeps the first argument, which is the event.
    pub(super) fn keep_context(&mut self) {
        self.add(0xBF, R6, R1, 0, 0);
    }

    /// Copies a register.
    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.add(0xBF, to, from, 0, 0);
    }

    /// Shifts a register to the left by so many bits.
    pub(super) fn shift_left(&mut self, to: Register, bits: i32) {
        self.add(0x67, to, R0, 0, bits);
    }

    /// Shifts a register to the right by so many bits.
    pub(super) fn shift_right(&mut self, to: Register, bits: i32) {
        self.add(0x77, to, R0, 0, bits);
    }

    pub(super) fn xor(&mut self, to: Register, from: Register) {
        self.add(0xAF, to, from, 0, 0);
    }

    pub(super) fn or(&mut self, to: Register, from: Register) {
        self.add(0x4F, to, from, 0, 0);
    }

    /// Sets a register to a small number.
    pub(super) fn set(&mut self, to: Register, value: u64) {
        self.add(0xB7, to, R0, 0, small(value));
    }

    pub(super) fn load32(&mut self, to: Register, at: Register, offset: i16) {
        self.add(0x61, to, at, offset, 0);
    }

    pub(super) fn load64(&mut self, to: Register, at: Register, offset: i16) {
        self.add(0x79, to, at, offset, 0);
    }

    pub(super) fn store32(&mut self, at: Register, offset: i16, from: Register) {
        self.add(0x63, at, from, offset, 0);
    }

    pub(super) fn store64(&mut self, at: Register, offset: i16, from: Register) {
        self.add(0x7B, at, from, offset, 0);
    }

    /// Adds to what a register points at, at once.
    pub(super) fn add_at(&mut self, at: Register, from: Register) {
        self.add(0xDB, at, from, 0, 0);
    }

    /// Points a register at a place on the stack.
    pub(super) fn place(&mut self, to: Register, offset: i16) {
        self.add(0xBF, to, R10, 0, 0);
        self.add(0x07, to, R0, 0, i32::from(offset));
    }

    /// Points a register at a map.
    pub(super) fn map(&mut self, to: Register, map: &Map) {
        self.add(0x18, to, R1, 0, map.0.as_raw_fd());
        self.words.push(0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.add(0x85, R0, R0, 0, helper as i32);
    }

    /// Points `R0` at the value whose key lies on the stack; 0 where there is none.
    pub(super) fn look_up(&mut self, map: &Map, key: i16) {
        self.map(R1, map);
        self.place(R2, key);
        self.call(Helper::LookUp);
    }

    /// Sets the value of a key, both of which lie on the stack; `R0` is 0, or a negative error.
    pub(super) fn update(&mut self, map: &Map, (key, value): (i16, i16), how: Update) {
        self.map(R1, map);
        self.place(R2, key);
        self.place(R3, value);
        self.set(R4, how as u64);
        self.call(Helper::Update);
    }

    /// Leaves.
    pub(super) fn leave(&mut self) {
        self.leaving.push(self.words.len());
        self.add(0x05, R0, R0, 0, 0);
    }

    pub(super) fn leave_if_zero(&mut self, tested: Register) {
        self.leaving.push(self.words.len());
        self.add(0x15, tested, R0, 0, 0);
    }

    pub(super) fn leave_unless(&mut self, tested: Register, value: u64) {
        self.leaving.push(self.words.len());
        self.add(0x55, tested, R0, 0, small(value));
    }

    pub(super) fn leave_unless_positive(&mut self, tested: Register) {
        self.leaving.push(self.words.len());
        self.add(0xD5, tested, R0, 0, 0);
    }

    pub(super) fn leave_if(&mut self, tested: Register, value: u64) {
        self.leaving.push(self.words.len());
        self.add(0x15, tested, R0, 0, small(value));
    }

    /// Leaves if the lower half of a register is this.
    pub(super) fn leave_if_32(&mut self, tested: Register, value: i32) {
        self.leaving.push(self.words.len());
        self.add(0x16, tested, R0, 0, value);
    }

    /// Begins what is skipped unless the lower half of a register is this.
    pub(super) fn skip_unless_32(&mut self, tested: Register, value: i32) -> Skip {
        self.add(0x56, tested, R0, 0, value);
        Skip(self.words.len())
    }

    /// Begins what is skipped if a register has a value, up to [`Self::here`].
    pub(super) fn skip_if(&mut self, tested: Register, value: u64) -> Skip {
        self.add(0x15, tested, R0, 0, small(value));
        Skip(self.words.len())
    }

    /// Begins what is skipped unless a register has a value, up to [`Self::here`].
    pub(super) fn skip_unless(&mut self, tested: Register, value: u64) -> Skip {
        self.add(0x55, tested, R0, 0, small(value));
        Skip(self.words.len())
    }

    /// Ends what is skipped.
    pub(super) fn here(&mut self, Skip(from): Skip) {
        self.lead(from - 1, self.words.len());
    }

    /// Has a jump lead to a place.
    fn lead(&mut self, jump: usize, to: usize) {
        let distance = i16::try_from(to - jump - 1).unwrap_or(i16::MAX);
        self.words[jump] |= u64::from(distance.cast_unsigned()) << 16;
    }

    /// The same with its end, to which all jumps lead.
    pub(super) fn end(mut self) -> Self {
        let end = self.words.len();
        for jump in std::mem::take(&mut self.leaving) {
            self.lead(jump, end);
        }
        self.set(R0, 0);
        self.add(0x95, R0, R0, 0, 0);
        self
    }
}

fn small(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Has the kernel prove a program and take it.
///
/// # Errors
/// It may not be, or is no proper program.
pub(super) fn load(code: &Code) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let length = u64::try_from(code.words.len()).unwrap_or(u64::MAX);
    let head = u64::from(TRACE_POINT) | length << 32;
    let mut request = [head, address(code.words.as_ptr()), address(license.as_ptr()), 0, 0, 0];
    descriptor(PROGRAM_LOAD, &mut request)
}

fn address<T>(of: *const T) -> u64 {
    u64::try_from(of.expose_provenance()).unwrap_or(u64::MAX)
}

fn descriptor<T>(command: libc::c_int, request: &mut [T]) -> io::Result<OwnedFd> {
    let number = bpf(command, request)?;
    // SAFETY: the kernel has just opened it for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn bpf<T>(command: libc::c_int, request: &mut [T]) -> io::Result<libc::c_int> {
    let size = size_of_val(request);
    // SAFETY: the kernel reads so many bytes of the request; the addresses in it are of live
    // variables that are as long as the maps' keys and values, or as the request says.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, request.as_mut_ptr(), size) };
    match libc::c_int::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}
