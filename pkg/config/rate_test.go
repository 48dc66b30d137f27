package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/config"
)

func TestARateIsACountInAPeriod(t *testing.T) {
	t.Parallel()
	c := load(t, "JETCREW_API_RATE_TOKEN=100/1s", "JETCREW_API_RATE_SPACE=1000/1d", "JETCREW_API_MAX_READY=5")
	require.Equal(t, config.Rate{Count: 100, Per: time.Second}, c.APIRateToken)
	require.Equal(t, config.Rate{Count: 1000, Per: 24 * time.Hour}, c.APIRateSpace)
	require.Equal(t, 5, c.APIMaxReady)
	for _, s := range c.Settings() {
		if s.Variable == "JETCREW_API_RATE_TOKEN" {
			require.Equal(t, "100/1s", s.Value)
		}
	}
	c = load(t, "JETCREW_API_RATE_TOKEN=none")
	require.False(t, c.APIRateToken.Limits())
	require.False(t, c.APIRateSpace.Limits(), "nothing is limited unless asked for")
	require.Equal(t, "none", c.APIRateSpace.String())
}

func TestRatesThatAreRefusedNameTheVariable(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"100", "100/", "/1s", "0/1s", "-1/1s", "1/1", "1/10ms", "1/2d", "1000000001/1s", "a/1s", "1/1s/1s", "off"} {
		_, err := config.Load([]string{"JETCREW_API_RATE_SPACE=" + v}, nil)
		require.ErrorContains(t, err, "JETCREW_API_RATE_SPACE", v)
		require.ErrorContains(t, err, "such as 100/1s")
	}
	_, err := config.Load([]string{"JETCREW_API_MAX_READY=-1"}, nil)
	require.ErrorContains(t, err, "JETCREW_API_MAX_READY")
}
