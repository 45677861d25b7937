//! libkrun in a process of its own: this program, started as [`ARGUMENT`], loads the library and
//! becomes the machine.
//!
//! `krun_start_enter` never returns, and ends the process with the machine. The library is loaded
//! when it runs, by the name that its own users link with: surtax is built without it, and starts
//! without it.
//!
//! Source: `include/libkrun.h` of libkrun 1.19.7.

use super::PORT;
use crate::fault::{Doing, Fault};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The hidden first argument that makes this program a machine.
pub const ARGUMENT: &str = "__krun";

/// The library, and the one with its guests' kernel, as their users link with them.
pub(super) const LIBRARY: &str = "libkrun.so.1";
pub(super) const FIRMWARE: &str = "libkrunfw.so.5";

/// The agent in the directory that is the guest's first root.
pub(super) const AGENT: &str = "/surtax-agent";

/// Number of words that the library looks at before it believes that a list has no end.
const LIST: usize = 4096;

/// The least that it says: what it refuses, and why.
const LOG_ERRORS: u32 = 1;

/// Either of what this process can be told to do.
///
/// # Errors
/// The library is not there or refuses; it was started by hand.
pub fn main() -> Result<(), Fault> {
    let words: Vec<_> = std::env::args_os().skip(2).collect();
    let words: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [look, place] if *look == "look" => say(&Library::open(Path::new(place))?),
        [enter, place, cpus, memory, root, socket] if *enter == "enter" => {
            let number = |text: &OsStr| text.to_str().unwrap_or_default().to_owned();
            let cpus = number(cpus).parse().doing("read a number of CPUs")?;
            let memory = number(memory).parse().doing("read an amount of memory")?;
            let machine = Machine { cpus, memory_mib: memory, root, socket };
            Library::open(Path::new(place))?.enter(&machine)
        }
        _ => Err(Fault::user(format!("`{ARGUMENT}` is for surtax itself"))
            .hint("write a stack such as `--in krun`")),
    }
}

/// Says which files were loaded, one a line: the library's, and the kernel's.
fn say(library: &Library) -> Result<(), Fault> {
    // The kernel is looked for when the first machine is asked for.
    let context = library.context()?;
    let mapped = fs::read_to_string("/proc/self/maps").doing("read `/proc/self/maps`")?;
    for name in ["libkrun.so", "libkrunfw.so"] {
        let path = mapped.lines().filter_map(|line| line.split_once('/')).find_map(|(_, path)| {
            let path = PathBuf::from(format!("/{path}"));
            let is_it = path.file_name()?.to_str()?.starts_with(name);
            is_it.then_some(path)
        });
        if let Some(path) = path {
            rustix::io::write(rustix::stdio::stdout(), path.as_os_str().as_bytes())
                .and_then(|_| rustix::io::write(rustix::stdio::stdout(), b"\n"))
                .doing("say where libkrun is")?;
        }
    }
    let free: extern "C" fn(u32) -> i32 = library.function(c"krun_free_ctx")?;
    library.done(c"krun_free_ctx", free(context))
}

/// A machine, as the library is told of it.
struct Machine<'a> {
    cpus: u8,
    memory_mib: u32,
    /// The directory that is its first root.
    root: &'a OsStr,
    /// Socket at which calls of its port arrive.
    socket: &'a OsStr,
}

/// The library, loaded for as long as this process lives.
struct Library {
    handle: *mut c_void,
}

impl Library {
    /// Loads it from where the machine's loader finds it, or from a directory.
    fn open(place: &Path) -> Result<Self, Fault> {
        if place.as_os_str().is_empty() {
            return load(Path::new(LIBRARY)).map(|handle| Self { handle });
        }
        // libkrun asks for it by its name, by which the loader then knows this one.
        load(&place.join(FIRMWARE))?;
        load(&place.join(LIBRARY)).map(|handle| Self { handle })
    }

    /// One of its functions.
    fn function<F: Copy>(&self, name: &CStr) -> Result<F, Fault> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a function is an address");
        // SAFETY: the handle is that of a library which is never unloaded, and the name ends with a
        // zero.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            let name = name.to_string_lossy();
            return Err(Fault::machine(format!("krun: this `{LIBRARY}` has no `{name}`"))
                .hint("install libkrun 1.19 or later"));
        }
        // SAFETY: each caller states the type that the library's header declares for this name.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// An empty configuration.
    fn context(&self) -> Result<u32, Fault> {
        let level: extern "C" fn(u32) -> i32 = self.function(c"krun_set_log_level")?;
        self.done(c"krun_set_log_level", level(LOG_ERRORS))?;
        let create: extern "C" fn() -> i32 = self.function(c"krun_create_ctx")?;
        let made = create();
        self.done(c"krun_create_ctx", made.min(0))?;
        u32::try_from(made).doing("take a context of libkrun's")
    }

    /// Becomes the machine.
    fn enter(&self, machine: &Machine<'_>) -> Result<(), Fault> {
        let context = self.context()?;
        let size: extern "C" fn(u32, u8, u32) -> i32 = self.function(c"krun_set_vm_config")?;
        self.done(c"krun_set_vm_config", size(context, machine.cpus, machine.memory_mib))?;

        let root: extern "C" fn(u32, *const c_char) -> i32 = self.function(c"krun_set_root")?;
        let path = text(machine.root)?;
        self.done(c"krun_set_root", root(context, path.as_ptr()))?;

        // Without its own network, which would lend the guest this level's sockets.
        let alone: extern "C" fn(u32) -> i32 = self.function(c"krun_disable_implicit_vsock")?;
        self.done(c"krun_disable_implicit_vsock", alone(context))?;
        let vsock: extern "C" fn(u32, u32) -> i32 = self.function(c"krun_add_vsock")?;
        self.done(c"krun_add_vsock", vsock(context, 0))?;

        let port: extern "C" fn(u32, u32, *const c_char, bool) -> i32 =
            self.function(c"krun_add_vsock_port2")?;
        let socket = text(machine.socket)?;
        self.done(c"krun_add_vsock_port2", port(context, PORT, socket.as_ptr(), false))?;

        let exec: extern "C" fn(
            u32,
            *const c_char,
            *const *const c_char,
            *const *const c_char,
        ) -> i32 = self.function(c"krun_set_exec")?;
        let (agent, first) = (text(OsStr::new(AGENT))?, text(OsStr::new("KRUN_INIT_PID1=1"))?);
        // The library takes both lists for so long that they must be.
        let mut words = vec![std::ptr::null(); LIST];
        let none = words.clone();
        words[0] = first.as_ptr();
        let done = exec(context, agent.as_ptr(), none.as_ptr(), words.as_ptr());
        self.done(c"krun_set_exec", done)?;

        let start: extern "C" fn(u32) -> i32 = self.function(c"krun_start_enter")?;
        self.done(c"krun_start_enter", start(context))
    }

    /// That a call was not refused: by a negative number, which is an error's.
    #[expect(clippy::unused_self, reason = "a call of this library's")]
    fn done(&self, name: &CStr, said: c_int) -> Result<(), Fault> {
        if said >= 0 {
            return Ok(());
        }
        let (name, why) = (name.to_string_lossy(), std::io::Error::from_raw_os_error(-said));
        Err(Fault::machine(format!("krun: `{name}` was refused: ")).saying(&why.to_string()))
    }
}

/// Loads a shared library, for all that is loaded later too.
fn load(path: &Path) -> Result<*mut c_void, Fault> {
    let name = text(path.as_os_str())?;
    // SAFETY: the name ends with a zero; what the library does when it is loaded, it does to a
    // process that is there for it alone.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: it takes nothing, and gives a text or nothing.
    let said = unsafe { libc::dlerror() };
    let why = if said.is_null() {
        String::from("the loader says no more")
    } else {
        // SAFETY: the loader's text ends with a zero and is there until it is asked again.
        unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
    };
    Err(Fault::machine(format!("krun: `{}` cannot be loaded: {why}", path.display())))
}

fn text(words: &OsStr) -> Result<CString, Fault> {
    CString::new(words.as_bytes()).doing("hand a text to libkrun")
}
