//! Facts that the daemon tells of itself and of a container, as evidence.

use super::engine::About;
use bollard::models::ContainerInspectResponse;
use std::path::Path;
use surtax_instrument::wire::Fact;

/// Returns what the daemon says of itself, and how it was found.
pub fn daemon_facts(origin: &str, socket: &Path, about: &About) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new("daemon", origin, "how it was found"),
        Fact::new("daemon_socket", socket.display().to_string(), "how it was found"),
        Fact::new("docker_api_version", about.spoken.to_string(), "GET /version"),
    ];
    let mut say = |key: &str, value: Option<String>, source: &str| {
        facts.extend(value.map(|value| Fact::new(key, value, source)));
    };
    say("docker_version", about.version.version.clone(), "GET /version");
    for part in about.version.components.iter().flatten().filter(|part| part.name != "Engine") {
        let key = format!("{}_version", part.name.replace('-', "_"));
        say(&key, Some(part.version.clone()), "GET /version");
    }
    let info = &about.info;
    say("storage_driver", info.driver.clone(), "GET /info");
    let backing = info.driver_status.iter().flatten().find_map(|row| match row.as_slice() {
        [key, value] if key == "Backing Filesystem" => Some(value.clone()),
        _ => None,
    });
    say("storage_backing", backing, "GET /info");
    let security = info.security_options.as_ref().map(|options| options.join(" "));
    say("security_options", security, "GET /info");
    say("cgroup_driver", info.cgroup_driver.map(|driver| driver.to_string()), "GET /info");
    say("cgroup_version", info.cgroup_version.map(|version| version.to_string()), "GET /info");
    facts
}

/// Returns what the daemon says of a container that it has started.
pub fn container_facts(inspected: &ContainerInspectResponse) -> Vec<Fact> {
    let source = "GET /containers/NAME/json";
    let host = inspected.host_config.as_ref();
    let runtime = host.and_then(|host| host.runtime.clone());
    let said = [
        ("container_id", inspected.id.clone()),
        ("image_id", inspected.image.clone()),
        ("runtime", runtime),
        ("container_storage_driver", inspected.driver.clone()),
    ];
    let known = said
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.filter(|text| !text.is_empty())?)));
    known.map(|(key, value)| Fact::new(key, value, source)).collect()
}
