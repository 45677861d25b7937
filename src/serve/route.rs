//! Routes: what a path behind the secret asks for.

use hyper::Method;
use percent_encoding::percent_decode_str;

/// Something that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The list of runs.
    List,
    /// The report of a run, which moves while it runs.
    Run(String),
    /// Findings of a run, as JSON.
    Answer(String),
    /// Stream of what runs now.
    Events(String),
    /// The end of a run, if that is allowed.
    Stop(String),
    /// The difference of two runs.
    Diff {
        /// Name of the earlier run.
        before: String,
        /// Name of the later run.
        after: String,
    },
    /// All runs of the question that a run asks.
    History(String),
}

impl Route {
    /// Reads a path and a query; `None`: nothing is there.
    pub(super) fn of(path: &str, query: &str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix("/runs/") {
            let (name, what) = rest.split_once('/')?;
            let name = decoded(name)?;
            return match what {
                "" => Some(Self::Run(name)),
                "answer.json" => Some(Self::Answer(name)),
                "events" => Some(Self::Events(name)),
                "stop" => Some(Self::Stop(name)),
                _ => None,
            };
        }
        let value = |key: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut values = pairs.filter(|(name, _)| *name == key).map(|(_, value)| value);
            decoded(&values.next()?.replace('+', " "))
        };
        match path {
            "/" => Some(Self::List),
            "/diff" => Some(Self::Diff { before: value("before")?, after: value("after")? }),
            "/history" => Some(Self::History(value("run")?)),
            _ => None,
        }
    }

    /// Tells whether it is asked for in this way: something is done by a form alone.
    pub(super) fn is_asked_by(&self, method: &Method) -> bool {
        self.is_act() == (*method == Method::POST)
    }

    /// Tells whether it does something, and does not only look.
    pub(super) fn is_act(&self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// A name as a link writes it; `None` where it is no text.
fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_asks_for_one_thing_or_for_nothing() {
        let of = |path: &str| Route::of(path, "before=a%20b&after=c+d&run=e");
        let name = String::from;
        assert_eq!(of("/"), Some(Route::List));
        assert_eq!(of("/runs/a%2Fb/"), Some(Route::Run(name("a/b"))));
        assert_eq!(
            of("/runs/a+b/"),
            Some(Route::Run(name("a+b"))),
            "it is a blank in a form alone"
        );
        assert_eq!(of("/runs/a/answer.json"), Some(Route::Answer(name("a"))));
        assert_eq!(of("/diff"), Some(Route::Diff { before: name("a b"), after: name("c d") }));
        assert_eq!(of("/history"), Some(Route::History(name("e"))));
        for nothing in
            ["", "/runs", "/runs/a", "/runs/a/b", "/runs/%ff/", "/../etc/passwd", "/diff/"]
        {
            assert_eq!(of(nothing), None, "{nothing}");
        }
        assert_eq!(Route::of("/diff", "before=a"), None);
        assert!(of("/runs/a/stop").unwrap().is_act() && !of("/").unwrap().is_act());
    }
}
