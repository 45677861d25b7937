use super::*;

/// See [`reaper_command_line`]: the journal is the last argument then, and no argument otherwise.
#[test]
fn this_process_is_the_reaper() {
    let last = std::env::args_os().next_back();
    if let Some(journal) = last.filter(|path| Path::new(path).is_absolute()) {
        if Path::new(&journal).extension().is_some_and(|extension| extension == "journal") {
            reaper_main(std::iter::once(journal));
        }
    }
}
