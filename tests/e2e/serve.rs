//! `surtax serve`: pages of kept runs and of one that runs, asked for as browsers and strangers do.

use crate::machine::{Machine, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A server, and the secret path of its pages.
struct Server {
    child: Child,
    address: SocketAddr,
    secret: String,
}

/// Answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Server {
    /// Starts one at a free port.
    fn start(machine: &Machine, flags: &[&str]) -> Self {
        let mut child = machine.start(&[&["serve", "--listen", "127.0.0.1:0"][..], flags].concat());
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let rest = url.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{url:?}"));
        let (address, secret) = rest.split_once('/').unwrap();
        let (address, secret) = (address.parse().unwrap(), secret.trim_end_matches('/').into());
        Self { child, address, secret }
    }

    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a request with these lines of its head.
    fn ask(&self, method: &str, path: &str, head: &[&str]) -> Answer {
        let lines: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{lines}\r\n");
        let mut bytes = Vec::new();
        self.connect(&request).read_to_end(&mut bytes).unwrap();
        let answer = text(&bytes);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.into() }
    }

    /// Returns the page at a path behind the secret.
    fn get(&self, path: &str) -> Answer {
        self.ask("GET", &self.path(path), &[&self.host()])
    }

    /// Does what a form of a page from here does.
    fn post(&self, path: &str) -> Answer {
        let origin = format!("Origin: http://{}", self.address);
        self.ask("POST", &self.path(path), &[&self.host(), &origin, "Content-Length: 0"])
    }

    fn path(&self, path: &str) -> String {
        format!("/{}/{path}", self.secret)
    }

    fn host(&self) -> String {
        format!("Host: {}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names of the runs that are kept, the oldest first.
fn names(machine: &Machine) -> Vec<String> {
    let runs = machine.json(&["list", "--format", "json"]);
    let name = |run: &serde_json::Value| run["name"].as_str().unwrap().to_owned();
    runs.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn runs_are_listed_shown_and_compared_and_nobody_sees_them_without_the_secret() {
    let machine = Machine::take();
    for seed in ["1", "2"] {
        let stacks = "simulated:seed=1,simulated:cost=1.5,seed=2";
        let question =
            ["compare", "--in", stacks, "--baseline", "simulated:seed=1", "--seed", seed];
        let output = machine.surtax(&[&question[..], &["--runs", "6", "--", "true"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let names = names(&machine);
    let server = Server::start(&machine, &[]);
    let list = server.get("");
    assert_eq!(list.status, 200, "{}", list.head);
    for name in &names {
        assert!(list.body.contains(&format!(">{name}</a>")), "{name}");
    }
    for said in ["cache-control: no-store", "x-frame-options: deny", "nosniff"] {
        assert!(list.head.contains(said), "{said}: {}", list.head);
    }
    let report = server.get(&format!("runs/{}/", names[1]));
    assert!(report.body.contains("1.5× slower"), "{}", report.head);
    assert!(!report.body.contains("class=\"now\""), "it has ended");
    let answer = server.get(&format!("runs/{}/answer.json", names[1]));
    let answer: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer["run"]["state"], "finished");
    let diff = server.get(&format!("diff?before={}&after={}", names[0], names[1]));
    assert!(diff.body.contains("the same boot") && diff.body.contains("<th scope=\"row\">"));
    let history = server.get(&format!("history?run={}", names[0]));
    assert!(history.body.contains("a new level shows with 4 at least"), "{}", history.head);

    // What is no run, and what is no page.
    for nothing in ["runs/no-such/", "runs/..%2F..%2Fetc%2Fpasswd/", "elsewhere", "runs"] {
        let answer = server.get(nothing);
        assert_eq!(answer.status, 404, "{nothing}");
        let back = format!("href=\"{}\"", server.path(""));
        assert!(answer.body.contains(&back), "no way back from {nothing}: {}", answer.body);
    }
    let host = server.host();
    let denied = [
        ("GET", "/".to_owned(), host.clone(), 404),
        ("GET", format!("/{}/", "0".repeat(32)), host.clone(), 404),
        ("GET", server.path(""), "Host: evil.example".into(), 403),
        ("GET", server.path(""), format!("{host}\r\nOrigin: http://evil.example"), 403),
        ("GET", server.path(""), format!("{host}\r\nSec-Fetch-Site: cross-site"), 403),
        ("PUT", server.path(""), host.clone(), 405),
        ("POST", server.path(""), format!("{host}\r\nOrigin: http://{}", server.address), 405),
        ("GET", server.path(&format!("runs/{}/stop", names[0])), host.clone(), 405),
    ];
    for (method, path, head, status) in denied {
        let answer = server.ask(method, &path, &[&head]);
        assert_eq!(answer.status, status, "{method} {path} {head}: {}", answer.body);
        assert!(!answer.body.contains(&names[0]), "{method} {path} {head}");
    }
    assert_eq!(server.post(&format!("runs/{}/stop", names[0])).status, 403, "not allowed");
    drop(server);
    machine.assert_as_before();
}

#[test]
fn a_run_that_goes_on_says_what_runs_now_and_ends_when_it_is_told_to() {
    let machine = Machine::take();
    let question = ["compare", "--in", "native", "--runs", "60", "--", "sleep", "4"];
    let run = machine.start(&question);
    let server = Server::start(&machine, &["--allow-stop"]);
    let began = std::time::Instant::now();
    let name = loop {
        assert!(began.elapsed() < Duration::from_secs(60), "no run begins");
        if let Some(name) = names(&machine).pop() {
            break name;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let path = format!("runs/{name}/");
    let page = server.get(&path).body;
    assert!(page.contains("class=\"now\" data-events=\"events\""), "nothing runs");
    assert!(page.contains("action=\"stop\""));
    let request = format!(
        "GET {} HTTP/1.1\r\n{}\r\n\r\n",
        server.path(&(path.clone() + "events")),
        server.host()
    );
    let lines = BufReader::new(server.connect(&request)).lines();
    let mut events = lines.map(Result::unwrap).filter_map(|line| {
        serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ")?).ok()
    });
    let first = events.next().unwrap();
    assert_eq!(first["is_running"], true, "{first}");
    assert!(first["line"].as_str().unwrap().contains(" of 60 of each stack"), "{first}");
    let more = events.find(|it| it["ended"].as_u64() > first["ended"].as_u64());
    assert!(more.is_some(), "no trial was told to have ended");
    // To be asked twice is not to be told to kill what runs.
    for _ in 0..3 {
        let stopped = server.post(&(path.clone() + "stop"));
        assert_eq!(stopped.status, 303, "{}", stopped.body);
    }
    let page = server.get(&path).body;
    assert!(page.contains("ends after this trial") || page.contains(", interrupted"));
    let last = events.last().unwrap();
    assert_eq!(last["is_running"], false, "{last}");
    let ended = run.wait_with_output().unwrap();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert_eq!(said.matches("by the button of a page of `surtax serve`").count(), 1, "{said}");
    let shown = machine.json(&["show", &name, "--format", "json"]);
    let trials =
        shown["arms"].as_array().unwrap().iter().flat_map(|it| it["trials"].as_array().unwrap());
    assert!(
        trials.clone().count() > 0 && trials.clone().all(|it| it["state"] != "void"),
        "{shown}"
    );
    let page = server.get(&path).body;
    assert!(page.contains(", interrupted") && !page.contains("class=\"now\""));
    assert_eq!(server.post(&(path + "stop")).status, 422, "nobody works on it any more");
    drop(server);
    machine.assert_as_before();
}

#[test]
fn what_is_no_run_file_is_told_and_stops_nobody() {
    let machine = Machine::take();
    let shelf = machine.path("shelf");
    std::fs::create_dir(&shelf).unwrap();
    let shelf = shelf.to_str().unwrap();
    let file = |name: &str| format!("{shelf}/{name}.surtax");
    let question = ["compare", "--in", "native", "--runs", "1", "-o"];
    let output = machine.surtax(&[&question[..], &[&file("run"), "--", "true"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    std::os::unix::fs::symlink("/etc/shadow", file("link")).unwrap();
    std::fs::write(file("text"), "root:x:0:0").unwrap();
    let view = "PRAGMA foreign_keys = OFF; DROP TABLE trials; CREATE VIEW trials AS \
                SELECT * FROM trials";
    std::fs::copy(file("run"), file("hostile")).unwrap();
    rusqlite::Connection::open(file("hostile")).unwrap().execute_batch(view).unwrap();
    let name = "<img src=x onerror=alert(1)>";
    std::fs::copy(file("run"), file(name)).unwrap();
    let server = Server::start(&machine, &[shelf]);
    let list = server.get("").body;
    assert!(list.contains(">run</a>"), "the others hide nothing");
    assert!(list.contains("is a symbolic link and no run file"), "{list}");
    assert!(!list.contains("<img") && list.contains("&lt;img src=x"));
    for name in ["link", "text", "hostile"] {
        let answer = server.get(&format!("runs/{name}/"));
        assert_eq!(answer.status, 422, "{name}: {}", answer.head);
        assert!(!answer.body.contains("root:"), "{name}");
    }
    assert_eq!(server.get("runs/run/").status, 200);
    drop(server);
    machine.assert_as_before();
}

#[test]
fn an_address_that_is_taken_is_told_with_whose_it_is() {
    let machine = Machine::take();
    let server = Server::start(&machine, &[]);
    let mut second = machine.command(&["serve", "--listen", &server.address.to_string()]);
    let output = second.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("(process id {}", server.child.id())), "{said}");
    assert!(said.contains("127.0.0.1:0"), "{said}");
    drop(server);
    machine.assert_as_before();
}
