package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set at link time by releases. Other builds use the version that Go recorded.
var version string

// Version describes a build of the command.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *App) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Example: "  tenet version\n  tenet version -o json",
	}
	return WithOutput(cmd, func(_ *cobra.Command, _ []string, form string) error {
		v := VersionOf()
		return a.Print(form, v, AsLine("%s", v))
	})
}

func (v Version) String() string {
	text := "tenet " + v.Version
	if v.Revision != "" {
		text += " (" + v.Revision[:min(len(v.Revision), 12)]
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text + " " + v.Go + " " + v.Platform
}

// VersionOf describes the running binary.
func VersionOf() Version {
	v := Version{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok && v.Version == "" {
		v.Version = info.Main.Version
	}
	v.Version = cmp.Or(v.Version, "(devel)")
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
