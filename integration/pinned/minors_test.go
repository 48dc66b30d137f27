package pinned

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

var required = regexp.MustCompile(`github\.com/nats-io/nats-server/v2 v(\S+)`)

// TestWhatIsTriedIsWhatIsSupported keeps integration/minors from falling behind when the server in go.mod moves on,
// or the oldest that is supported does.
func TestWhatIsTriedIsWhatIsSupported(t *testing.T) {
	t.Parallel()
	version := func(file string) string {
		text, err := os.ReadFile(filepath.Join("..", "minors", file))
		require.NoError(t, err)
		m := required.FindSubmatch(text)
		require.NotNil(t, m, file)
		return string(m[1])
	}
	minor := func(v string) string { return v[:strings.LastIndexByte(v, '.')] }
	require.Equal(t, natsenv.MinServer, version("oldest.mod"))
	before := version("go.mod")
	require.True(t, natsenv.NewEnough(before), before)
	require.NotEqual(t, minor(server.VERSION), minor(before), "the minor before the one that is built in")
}
