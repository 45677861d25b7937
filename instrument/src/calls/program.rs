//! The programs that the kernel runs at each trace point: who is followed, and what is counted.
//!
//! All share the map of tasks. One that comes of the parent is followed from its first `execve`,
//! which itself counts: until then it is the parent's code that runs.

use super::bpf::{Code, Helper, Map, R0, R1, R2, R3, R6, R7, R8, R9, R10, Update};

/// The process whose children are followed, and which is not.
pub(super) const PARENT: u64 = 1;

/// A child that has executed nothing yet.
const NEWBORN: u64 = 2;

/// One that is counted.
const COUNTED: u64 = 3;

/// Bytes of a name: whose folder it is in, and its first characters.
pub(super) const NAME_BYTES: u32 = 136;

/// Bytes of a name's characters, the last a zero.
const CHARACTERS: u64 = 128;

/// Places at which a system call has a name.
#[derive(Clone, Copy)]
pub(super) enum Names {
    /// First argument.
    First = 1,
    /// Second argument, in the folder that the first one is a descriptor of.
    Second = 2,
}

/// System calls that look a name up.
pub(super) const LOOK_UP: &[(libc::c_long, Names)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_access, Names::First),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lstat, Names::First),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Names::First),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_readlink, Names::First),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_stat, Names::First),
    (libc::SYS_chdir, Names::First),
    (libc::SYS_execve, Names::First),
    (libc::SYS_getxattr, Names::First),
    (libc::SYS_lgetxattr, Names::First),
    (libc::SYS_listxattr, Names::First),
    (libc::SYS_llistxattr, Names::First),
    (libc::SYS_statfs, Names::First),
    (libc::SYS_faccessat, Names::Second),
    (libc::SYS_faccessat2, Names::Second),
    (libc::SYS_newfstatat, Names::Second),
    (libc::SYS_openat, Names::Second),
    (libc::SYS_openat2, Names::Second),
    (libc::SYS_readlinkat, Names::Second),
    (libc::SYS_statx, Names::Second),
];

/// Maps that the programs read and write.
pub(super) struct Programs<'a> {
    /// Thread: what it is.
    pub tasks: &'a Map,
    /// Number of a call: how often it was asked for.
    pub counts: &'a Map,
    /// The same: what it returned in all.
    pub returned: &'a Map,
    /// The same: how often with a name that nobody had said before.
    pub fresh: &'a Map,
    /// The same: where it has a name.
    pub places: &'a Map,
    /// Names that somebody has said.
    pub names: &'a Map,
    /// Process and descriptor of a folder: how often that was closed.
    pub closed: &'a Map,
    /// Number of programs that were started.
    pub started: &'a Map,
    /// Number of what there was no room for.
    pub lost: &'a Map,
}

/// Places on the stack.
const TASK: i16 = -4;
const KEY: i16 = -8;
const VALUE: i16 = -16;
const FOLDER: i16 = -24;
const NAME: i16 = -168;

impl Programs<'_> {
    /// At the begin of a call: one more of its number, and one more of those with a new name.
    ///
    /// A name is new where nobody has said it in the same folder: the one of a descriptor until
    /// that is closed, or else the working directory, as if there were one alone.
    pub(super) fn enter(&self, id: i16, arguments: i16) -> Code {
        let mut code = self.of_counted();
        code.load64(R7, R6, id);
        code.store32(R10, KEY, R7);
        self.one_more_of_key(&mut code, self.counts);
        // The process and the descriptor that the first argument is, if it is one.
        code.call(Helper::CurrentTask);
        code.shift_right(R0, 32);
        code.shift_left(R0, 32);
        code.load64(R8, R6, arguments);
        code.copy(R9, R8);
        code.shift_left(R9, 32);
        code.shift_right(R9, 32);
        code.or(R9, R0);
        let of_others = code.skip_unless(R7, libc::SYS_close.unsigned_abs());
        self.close(&mut code);
        code.here(of_others);
        code.look_up(self.places, KEY);
        code.leave_if_zero(R0);
        code.load64(R1, R0, 0);
        code.leave_if(R1, 0);
        code.set(R7, 0);
        let of_first = code.skip_unless(R1, Names::Second as u64);
        code.load64(R8, R6, arguments + 8);
        self.folder(&mut code);
        code.here(of_first);
        self.say(&mut code);
        code.end()
    }

    /// Counts that the descriptor in `R9` is closed, if a name was said in its folder.
    fn close(&self, code: &mut Code) {
        code.store64(R10, FOLDER, R9);
        code.look_up(self.closed, FOLDER);
        code.leave_if_zero(R0);
        code.set(R1, 1);
        code.add_at(R0, R1);
        code.leave();
    }

    /// Sets `R7` to what tells the folder of the descriptor in `R9` from all others.
    fn folder(&self, code: &mut Code) {
        code.copy(R7, R9);
        code.store64(R10, FOLDER, R9);
        // The working directory is no descriptor: its process does not matter.
        code.shift_left(R9, 32);
        code.shift_right(R9, 32);
        let of_descriptor = code.skip_unless_32(R9, libc::AT_FDCWD);
        code.set(R7, 0);
        code.here(of_descriptor);
        let of_none = code.skip_if(R7, 0);
        code.look_up(self.closed, FOLDER);
        let is_known = code.skip_unless(R0, 0);
        code.set(R1, 0);
        code.store64(R10, VALUE, R1);
        code.update(self.closed, (FOLDER, VALUE), Update::Any);
        self.lose_unless_zero(code);
        code.look_up(self.closed, FOLDER);
        code.here(is_known);
        code.leave_if_zero(R0);
        code.load64(R1, R0, 0);
        code.shift_left(R1, 20);
        code.xor(R7, R1);
        code.here(of_none);
    }

    /// Says the name at `R8` in the folder `R7`: one more of those that are new, if it is.
    fn say(&self, code: &mut Code) {
        code.set(R1, 0);
        for word in 0..NAME_BYTES / 8 {
            code.store64(R10, NAME + i16::try_from(8 * word).unwrap_or(0), R1);
        }
        code.store64(R10, NAME, R7);
        code.place(R1, NAME + 8);
        code.set(R2, CHARACTERS);
        code.copy(R3, R8);
        code.call(Helper::UserString);
        code.leave_unless_positive(R0);
        code.set(R1, 1);
        code.store64(R10, VALUE, R1);
        code.update(self.names, (NAME, VALUE), Update::New);
        code.leave_if_32(R0, -libc::EEXIST);
        self.lose_unless_zero(code);
        self.one_more_of_key(code, self.fresh);
    }

    /// Leaves with a note that there was no room, unless `R0` is 0.
    fn lose_unless_zero(&self, code: &mut Code) {
        let kept = code.skip_if(R0, 0);
        self.one_more(code, self.lost, 0);
        code.leave();
        code.here(kept);
    }

    /// At the end of a call: so much more was returned, if that is more than 0.
    pub(super) fn exit(&self, (id, returned): (i16, i16)) -> Code {
        let mut code = self.of_counted();
        code.load64(R7, R6, returned);
        code.leave_unless_positive(R7);
        code.load64(R1, R6, id);
        code.store32(R10, KEY, R1);
        code.look_up(self.returned, KEY);
        code.leave_if_zero(R0);
        code.add_at(R0, R7);
        code.end()
    }

    /// At the birth of a task: it is what its parent is; of the first one, newborn.
    pub(super) fn fork(&self, (parent, child): (i16, i16)) -> Code {
        let mut code = Code::default();
        code.keep_context();
        code.load32(R1, R6, child);
        code.store32(R10, KEY, R1);
        code.load32(R1, R6, parent);
        code.store32(R10, TASK, R1);
        code.look_up(self.tasks, TASK);
        let of_ours = code.skip_unless(R0, 0);
        // Its number may have been that of one of ours.
        self.forget(&mut code, KEY);
        code.leave();
        code.here(of_ours);
        code.leave_if_zero(R0);
        code.load64(R7, R0, 0);
        let of_counted = code.skip_unless(R7, PARENT);
        code.set(R7, NEWBORN);
        code.here(of_counted);
        code.store64(R10, VALUE, R7);
        code.update(self.tasks, (KEY, VALUE), Update::Any);
        self.lose_unless_zero(&mut code);
        code.end()
    }

    /// Notes that a task executes a file: a newborn is counted from now on. A thread that does so
    /// takes its process's number, and the thread that had it has ended before.
    pub(super) fn exec(&self, (now, before): (i16, i16)) -> Code {
        let mut code = Code::default();
        code.keep_context();
        code.load32(R1, R6, before);
        code.store32(R10, TASK, R1);
        code.look_up(self.tasks, TASK);
        code.leave_if_zero(R0);
        code.load64(R7, R0, 0);
        code.leave_if(R7, PARENT);
        let is_counted = code.skip_if(R7, COUNTED);
        self.one_more(&mut code, self.counts, libc::SYS_execve.unsigned_abs());
        code.here(is_counted);
        self.forget(&mut code, TASK);
        code.load32(R1, R6, now);
        code.store32(R10, TASK, R1);
        code.set(R7, COUNTED);
        code.store64(R10, VALUE, R7);
        code.update(self.tasks, (TASK, VALUE), Update::Any);
        self.lose_unless_zero(&mut code);
        self.one_more(&mut code, self.started, 0);
        code.end()
    }

    /// Forgets the task whose number lies on the stack.
    fn forget(&self, code: &mut Code, task: i16) {
        code.map(R1, self.tasks);
        code.place(R2, task);
        code.call(Helper::Delete);
    }

    /// Counts that a page of a file is faulted in.
    pub(super) fn file_fault(&self, faults: &Map) -> Code {
        let mut code = self.of_counted();
        self.one_more(&mut code, faults, 0);
        code.end()
    }

    /// Counts one more at a place of a map that is always there.
    fn one_more(&self, code: &mut Code, map: &Map, place: u64) {
        code.set(R1, place);
        code.store32(R10, KEY, R1);
        self.one_more_of_key(code, map);
    }

    /// Counts one more at the key that lies on the stack; leaves where the map has none.
    fn one_more_of_key(&self, code: &mut Code, map: &Map) {
        code.look_up(map, KEY);
        code.leave_if_zero(R0);
        code.set(R1, 1);
        code.add_at(R0, R1);
    }

    /// Forgets a task that ends: its number may be another's.
    pub(super) fn gone(&self) -> Code {
        let mut code = Code::default();
        code.call(Helper::CurrentTask);
        code.store32(R10, TASK, R0);
        self.forget(&mut code, TASK);
        code.end()
    }

    /// The begin of a program that is left unless the task is counted.
    fn of_counted(&self) -> Code {
        let mut code = Code::default();
        code.keep_context();
        code.call(Helper::CurrentTask);
        code.store32(R10, TASK, R0);
        code.look_up(self.tasks, TASK);
        code.leave_if_zero(R0);
        code.load64(R1, R0, 0);
        code.leave_unless(R1, COUNTED);
        code
    }
}
