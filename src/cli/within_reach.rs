//! Places that a command must not write to: runs that are kept, what vouches for them, results,
//! what root executes or obeys, and what decides where another of its directories is.

mod configuration;
mod docker;
mod homes;
mod interpreter;
mod kernel;
mod loader;
mod modules;
mod pattern;
mod places;
mod programs;
mod split_string;

use self::places::{Extent, Place, Reason};
use crate::driver;
use crate::fault::Fault;
use crate::layer::{BINARY, LayerSpec, StackSpec};
use crate::plan::writable::real;
use crate::plan::{Draft, Plan};
use crate::rootfs::root;
use crate::workload::Workload;
use crate::workload::definition::{Client, Definition};
use std::path::{Path, PathBuf};
use surtax_instrument::way::Way;

const TOOL: Reason = Reason::started("part of what a stack's tool is started by");

/// Refuses a plan whose command may write to its own run, to those that are kept, to surtax's
/// state, to what root executes, or to where a result will be: it could make any number, or have
/// surtax write or execute what it likes.
///
/// # Errors
/// The user's, with the directory; also where one has become a link since the plan was made. The
/// machine's: what decides what root executes cannot be read.
pub(super) fn refuse(plan: &Plan, run: Option<&Path>, results: &[&Path]) -> Result<(), Fault> {
    if plan.writable.is_empty() {
        return Ok(());
    }
    let mut foreign = Foreign::beside(&plan.writable)?;
    foreign.found.extend(programs::started(tools(plan)?, TOOL));
    for directory in &plan.writable {
        require_plain(directory)?;
        require_apart(directory, plan)?;
        require_files(directory)?;
        foreign.refuse(directory)?;
        require_elsewhere(directory, run)?;
        if let Some(result) = results.iter().find(|path| is_within(path, directory)) {
            let (shown, result) = (directory.display(), result.display());
            return Err(Fault::user(format!(
                "`{result}` would be written into the writable directory `{shown}`: the command \
                 could leave a link there, and surtax would write to where it leads"
            ))
            .hint("write it elsewhere, or name a narrower directory with `--writable`"));
        }
    }
    Ok(())
}

/// Refuses the writable directories of a draft by where they lie: before a plan of them is shown,
/// and before anybody is told to make one that would then be refused.
///
/// # Errors
/// As [`refuse`].
pub(super) fn refuse_draft(draft: &Draft, cwd: &Path) -> Result<(), Fault> {
    let cwd = draft.cwd.as_ref().map_or_else(|| cwd.to_path_buf(), |own| cwd.join(own));
    let directories: Vec<PathBuf> =
        draft.writable.iter().map(|path| real(&cwd.join(path))).collect();
    let foreign = Foreign::beside(&directories)?;
    // All of the machine is refused by the draft itself, which says more.
    directories.iter().filter(|directory| directory.parent().is_some()).try_for_each(|directory| {
        require_files(directory)?;
        foreign.refuse(directory)
    })
}

/// A plan names directories without links; one of an older surtax may not.
fn require_plain(directory: &Path) -> Result<(), Fault> {
    let found = real(directory);
    if found == *directory {
        return Ok(());
    }
    let (shown, found) = (directory.display(), found.display());
    Err(Fault::user(format!("the writable directory `{shown}` leads to `{found}`"))
        .hint("see whether somebody made it a link; to write there, begin another run"))
}

/// Whoever can rename a directory above another one, or above a root, decides where that one is.
fn require_apart(directory: &Path, plan: &Plan) -> Result<(), Fault> {
    let shown = directory.display();
    let inside = |it: &&PathBuf| *it != directory && it.starts_with(directory);
    if let Some(inner) = plan.writable.iter().find(inside) {
        return Err(Fault::user(format!(
            "the writable directory `{}` lies in `{shown}`, which is writable as a whole",
            inner.display()
        ))
        .hint("name the outer one alone"));
    }
    let stacks = stacks(plan)?;
    let named = stacks.iter().flat_map(|stack| &stack.layers).flat_map(driver::files);
    let files: Vec<PathBuf> = named.chain(stacks.iter().flat_map(driver::borrowed)).collect();
    // A part of a root may be writable: what is in there is the command's own.
    let layers = || stacks.iter().flat_map(|stack| &stack.layers);
    let is_root = |file: &Path| layers().any(|layer| layer.is_root(file));
    let (file, relation) = if let Some(file) = files.iter().find(|it| is_within(it, directory)) {
        (file, "lies in")
    } else if let Some(file) = around(&files, directory, is_root) {
        (file, "holds")
    } else {
        return Ok(());
    };
    Err(Fault::user(format!(
        "`{}`, which a stack is made of, {relation} the writable directory `{shown}`",
        file.display()
    ))
    .hint("a command could replace it for the trials after its own: move one"))
}

/// The directory among these in which the writable one lies, unless it is a root.
fn around<'f>(
    files: &'f [PathBuf],
    directory: &Path,
    is_root: impl Fn(&Path) -> bool,
) -> Option<&'f PathBuf> {
    files.iter().find(|file| directory.starts_with(real(file)) && !is_root(file))
}

/// Lists all stacks in which something of a plan runs.
fn stacks(plan: &Plan) -> Result<Vec<StackSpec>, Fault> {
    let named = plan.stacks.iter().chain([&plan.baseline]);
    let beside = plan.beside.iter().map(|neighbour| &neighbour.stack);
    Ok(named.chain(beside).cloned().chain(clients(plan)?).collect())
}

/// Lists the files that stacks name for their layers' tools.
fn tools(plan: &Plan) -> Result<Vec<PathBuf>, Fault> {
    let named = |layer: LayerSpec| layer.option(BINARY.key).map(PathBuf::from);
    Ok(stacks(plan)?.into_iter().flat_map(|stack| stack.layers).filter_map(named).collect())
}

/// Lists the stacks in which clients of workloads run, which no plan names as its own.
fn clients(plan: &Plan) -> Result<Vec<StackSpec>, Fault> {
    let neighbours = plan.beside.iter().map(|neighbour| &neighbour.workload);
    let definitions = plan.workload.iter().chain(neighbours).map(Workload::resolve);
    let stack = |definition: Definition| match definition.client {
        Client::Beside(stack) => Some(stack),
        Client::Native | Client::Stack => None,
    };
    definitions.filter_map(|definition| definition.map(stack).transpose()).collect()
}

/// The run is kept somewhere else.
fn require_elsewhere(directory: &Path, run: Option<&Path>) -> Result<(), Fault> {
    let Some(run) = run.filter(|run| is_within(run, directory)) else { return Ok(()) };
    Err(Fault::user(format!(
        "the run itself, `{}`, lies in the writable directory `{}`: the command could write its \
         own result",
        run.display(),
        directory.display()
    ))
    .hint(
        "name a narrower directory with `--writable`, or have the run elsewhere: by `--output`, or \
         by moving its file",
    ))
}

/// It holds files, and none that is a setting of the kernel's.
fn require_files(directory: &Path) -> Result<(), Fault> {
    let Some(kernels) = root::kernel_mount_at(directory)? else { return Ok(()) };
    let (shown, point) = (directory.display(), kernels.point.display());
    let kind = kernels.kind;
    let (where_it_is, hint) = match directory.starts_with(&kernels.point) {
        true => ("lies on", "name a directory of files with `--writable`"),
        false => ("holds", "name a narrower directory with `--writable`, or unmount that one"),
    };
    Err(Fault::user(format!(
        "the writable directory `{shown}` {where_it_is} a file system of the kernel's (`{kind}` at \
         `{point}`): the command could change this machine's settings"
    ))
    .hint(hint))
}

/// Places that are no command's: what is surtax's, and what decides what root executes.
#[derive(Default)]
struct Foreign {
    /// Those of the table, of which the innermost decides.
    machine: Vec<Place>,
    /// Those that this machine's configuration and `PATH` name, and surtax's own.
    found: Vec<Place>,
}

impl Foreign {
    /// Finds them, where there are directories to be judged.
    fn beside(directories: &[PathBuf]) -> Result<Self, Fault> {
        if directories.is_empty() {
            return Ok(Self::default());
        }
        let homes = homes::places()?;
        let links = configuration::places(&homes);
        let mut found: Vec<Place> = places::of_surtax().chain(homes).chain(links).collect();
        found.extend(programs::places());
        found.extend(docker::places()?);
        found.extend(kernel::places()?);
        found.extend(loader::places()?);
        Ok(Self { machine: places::of_the_machine().collect(), found })
    }

    /// None of them lies in the directory or around it.
    fn refuse(&self, directory: &Path) -> Result<(), Fault> {
        let is_around = |place: &&Place| directory.starts_with(real(&place.path));
        let (around, others): (Vec<&Place>, Vec<&Place>) = self.machine.iter().partition(is_around);
        // The innermost around it decides, and speaks for those further out.
        let innermost = around.into_iter().max_by_key(|it| real(&it.path).components().count());
        if let Some(met) = innermost.and_then(|place| Met::with(place, directory)) {
            return Err(met.fault(directory, ""));
        }
        let all = self.found.iter().chain(others);
        let mut all = all.filter_map(|place| Met::with(place, directory));
        let Some(met) = all.next() else { return Ok(()) };
        // To have one elsewhere would only lead to the next, unless that helps with all of them.
        let mut remedies: Vec<&String> = met.place.remedies.iter().collect();
        all.for_each(|other| remedies.retain(|remedy| other.place.remedies.contains(remedy)));
        Err(met.fault(directory, remedies.first().map_or("", |remedy| remedy)))
    }
}

/// A place that a command could exchange, and why.
struct Met<'p> {
    place: &'p Place,
    how: How,
}

/// Relation of a place and a writable directory.
enum How {
    /// They are one.
    Same,
    /// The directory lies in the place.
    InPlace,
    /// The place lies in the directory.
    Holds,
    /// A link on the way to the place leads into the directory.
    OnTheWay,
}

impl<'p> Met<'p> {
    fn with(place: &'p Place, directory: &Path) -> Option<Self> {
        let found = real(&place.path);
        let how = if found == *directory {
            How::Same
        } else if directory.starts_with(&found) && place.extent == Extent::Whole {
            How::InPlace
        } else if !is_within(&place.path, directory) {
            return None;
        } else if place.path.starts_with(directory) {
            How::Holds
        } else {
            How::OnTheWay
        };
        Some(Self { place, how })
    }

    /// The user's fault, of a command that could do this; the remedy is part of its hint.
    fn fault(&self, directory: &Path, remedy: &str) -> Fault {
        let Place { path, extent, reason: Reason { description, harm }, .. } = self.place;
        let is_named_so = path == directory;
        let (shown, path) = (directory.display(), path.display());
        let met = match self.how {
            How::Same if is_named_so => {
                format!("the writable directory `{shown}` is {description}")
            }
            How::Same => {
                format!("`{path}`, {description}, leads to the writable directory `{shown}`")
            }
            How::InPlace => {
                let path = real(&self.place.path);
                let path = path.display();
                format!("the writable directory `{shown}` lies in `{path}`, {description}")
            }
            How::Holds => format!("the writable directory `{shown}` holds `{path}`, {description}"),
            How::OnTheWay => format!(
                "the way to `{path}`, {description}, leads into the writable directory `{shown}`"
            ),
        };
        let hint = match (&self.how, extent) {
            (How::InPlace, _) | (How::Same, Extent::Whole) => String::from(
                "copy what the command needs to a directory of your own, and name that one with \
                 `--writable`",
            ),
            (How::Same | How::Holds, _) => {
                format!("name a narrower directory with `--writable`{remedy}")
            }
            (How::OnTheWay, _) => {
                format!("name a directory with `--writable` that is not on that way{remedy}")
            }
        };
        Fault::user(format!("{met}: the command could {harm}")).hint(hint)
    }
}

/// Tells whether a path leads into a directory or through it: where one of its names, or of those
/// of a link on its way, is looked up there, that one can be exchanged. What it ends with need not
/// be there.
fn is_within(path: &Path, directory: &Path) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let directory = real(directory);
    let mut way = Way::to(&path);
    way.any(|step| step.directory.starts_with(&directory))
        || way.here().is_some_and(|end| end.starts_with(&directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn refusal(directory: &Path) -> Result<(), Fault> {
        Foreign::beside(&[directory.to_path_buf()])?.refuse(directory)
    }

    #[test]
    fn places_of_the_machine_are_refused_with_a_reason_and_projects_are_accepted() {
        for (path, told) in [
            ("/etc", "is where the configuration of root's programs lies"),
            ("/usr/share/lxc/hooks", "lies in `/usr`, where programs of root's"),
            ("/usr/libexec", "lies in `/usr`"),
            ("/usr/local", "is where programs of root's"),
            ("/opt", "is where programs"),
            ("/opt/cni/bin", "lies in `/opt/cni`"),
            ("/home", "is where the homes"),
            ("/run/systemd/system", "lies in `/run`"),
            ("/dev", "is where devices"),
            ("/dev/shm", "is where surtax and others"),
            ("/var", "holds `/var/"),
            ("/var/lib", "is where services of root"),
            ("/var/lib/docker/volumes", "lies in `/var/lib/docker`"),
            ("/var/spool", "is where jobs lie"),
            ("/var/spool/cron/crontabs", "lies in `/var/spool/cron`"),
            ("/var/tmp", "is where surtax and others make"),
            ("/tmp", "is where everybody has sockets"),
            ("/var/lib/surtax/users/7", "lies in `/var/lib/surtax`, where surtax keeps"),
        ] {
            let fault = refusal(Path::new(path)).unwrap_err();
            assert!(fault.message.contains(told), "{path}: {}", fault.message);
            assert!(fault.hint.unwrap().contains("--writable"), "{path}");
        }
        for path in [
            "/home/me/project", "/opt/project", "/root/project", "/srv/x", "/tmp/x", "/var/tmp/x",
            "/dev/shm/x", "/var/lib/jenkins/workspace/x", "/usr/src/app", "/mnt/disk",
            "/run/media/me/disk/project", "/optional",
        ] {
            assert_eq!(refusal(Path::new(path)).map_err(|it| it.message), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_place_that_is_refused_is_refused_before_it_is_planned_or_anybody_is_told_to_make_it() {
        let draft = |path: &str| Draft { writable: vec![path.into()], ..Draft::default() };
        for (path, told) in [
            ("/etc", "is where the configuration of root's programs lies"),
            (".", "is where the configuration of root's programs lies"),
            ("/tmp", "is where everybody has sockets"),
            ("/etc/not-there", "lies in `/etc`"),
            ("not-there/x", "lies in `/etc`"),
            ("/proc/not-there", "a file system of the kernel's"),
        ] {
            let fault = refuse_draft(&draft(path), Path::new("/etc")).unwrap_err();
            assert!(fault.message.contains(told), "{path}: {}", fault.message);
            assert!(!fault.hint.unwrap_or_default().contains("mkdir"), "{path}");
        }
        for path in ["/srv/not-there", "/", "/tmp/not-there"] {
            assert_eq!(refuse_draft(&draft(path), Path::new("/")).map_err(|it| it.message), Ok(()));
        }
    }

    #[test]
    fn what_any_reader_finds_is_refused() {
        let found = Foreign::beside(&[PathBuf::from("/srv/x")]).unwrap().found;
        let readers = [homes::places(), docker::places(), kernel::places(), loader::places()];
        let told = readers.into_iter().flat_map(Result::unwrap).chain(programs::places());
        assert!(told.into_iter().all(|place| found.contains(&place)));
    }

    #[test]
    fn of_a_directory_that_holds_several_places_no_single_one_is_to_be_moved() {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap();
        let fault = refusal(&real(&home)).unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some("name a narrower directory with `--writable`"));
    }

    #[test]
    fn a_remedy_is_told_where_it_helps_with_all_places_that_are_met() {
        let place = tempfile::tempdir().unwrap();
        let kept = real(place.path());
        let at = |name: &str| kept.join(name);
        fs::create_dir(at("bin")).unwrap();
        symlink("../tool", at("bin/tool")).unwrap();
        fs::create_dir(at("more")).unwrap();
        let [bin, more] = [at("bin"), at("more")];
        let hint = |directory: &Path, path: &[&PathBuf]| {
            let path: Vec<PathBuf> = path.iter().copied().cloned().collect();
            let foreign = Foreign { machine: Vec::new(), found: programs::of(&path) };
            foreign.refuse(directory).unwrap_err().hint.unwrap()
        };
        let narrower = "name a narrower directory with `--writable`";
        let off = format!("{narrower}, or take `{}` off `PATH`", bin.display());
        assert_eq!(hint(&bin, &[&bin]), off, "and a link in it");
        assert_eq!(hint(&kept, &[&bin, &bin]), off, "and where the link leads");
        assert_eq!(hint(&kept, &[&bin, &more]), narrower);
    }

    #[test]
    fn a_link_anywhere_on_a_way_that_lies_in_a_directory_leads_through_it() {
        let place = tempfile::tempdir().unwrap();
        let place = fs::canonicalize(place.path()).unwrap();
        let [kept, tool, version] = ["kept", "tool", "version"].map(|name| place.join(name));
        for directory in [&kept, &tool, &version.join("bin")] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink("../kept/release", tool.join("current")).unwrap();
        symlink(&version, kept.join("release")).unwrap();
        symlink("/dev/null", kept.join("null")).unwrap();
        symlink(kept.join("not-there"), tool.join("out")).unwrap();
        symlink("loop", tool.join("loop")).unwrap();
        for through in ["tool/current/bin", "tool/out", "kept/null", "kept", "tool/../kept/x"] {
            assert!(is_within(&place.join(through), &kept), "{through}");
        }
        for apart in ["version/bin", "tool/new", "tool/loop", "keptless", "kept/../tool"] {
            assert!(!is_within(&place.join(apart), &kept), "{apart}");
        }
        assert!(!is_within(Path::new("/dev/stdout"), &kept));
    }
}
