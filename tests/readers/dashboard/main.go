// Reads a dashboard with the types that Grafana publishes, strictly: a field that they do not know,
// one that lacks, and a value of another kind or out of range are errors, also in a query, the
// options of a panel and its fields.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// What these types share.
type strict interface {
	UnmarshalJSONStrict(raw []byte) error
	Validate() error
}

func main() {
	path := os.Args[1]
	panels, err := read(path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", path, err)
		os.Exit(1)
	}
	fmt.Printf("Grafana's types: %d panels\n", panels)
}

// Returns the number of panels, without rows.
func read(path string) (int, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	plugins.RegisterDefaultPlugins()
	if err := hold(&dashboard.Dashboard{}, raw); err != nil {
		return 0, err
	}
	// A dashboard that was read strictly has no panels, so each is read once more.
	var board struct {
		Panels []json.RawMessage `json:"panels"`
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		return 0, err
	}
	count := 0
	for number, raw := range board.Panels {
		var its struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &its); err != nil {
			return 0, err
		}
		var panel strict = &dashboard.RowPanel{}
		if its.Type != "row" {
			panel = &dashboard.Panel{}
			count++
			// Of a panel of another type nobody knows the options.
			if _, known := cog.ConfigForPanelcfgVariant(its.Type); !known {
				return 0, fmt.Errorf("panels[%d]: `%s` is no type of panel that comes with Grafana", number, its.Type)
			}
		}
		if err := hold(panel, raw); err != nil {
			return 0, fmt.Errorf("panels[%d]: %w", number, err)
		}
	}
	return count, nil
}

// Reads and validates. What has no error returns a list of none.
func hold(what strict, raw []byte) error {
	var errs cog.BuildErrors
	err := what.UnmarshalJSONStrict(raw)
	if err == nil || errors.As(err, &errs) && len(errs) == 0 {
		return what.Validate()
	}
	return err
}
