package natstest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// metaGroup is what a server says of the group that runs the cluster's
// JetStream.
type metaGroup struct {
	Leader   string `json:"leader"`
	Size     int    `json:"cluster_size"`
	Replicas []struct {
		Name    string `json:"name"`
		Current bool   `json:"current"`
		Offline bool   `json:"offline"`
	} `json:"replicas"` // only the leader has them
}

func (p *Process) get(ctx context.Context, path string) (body []byte, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.MonitorURL()+path, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	body, err = io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	return body, resp.StatusCode, err
}

func (p *Process) metaGroup(ctx context.Context) (metaGroup, error) {
	body, status, err := p.get(ctx, "/jsz")
	if err != nil {
		return metaGroup{}, fmt.Errorf("server %s: %w", p.name, err)
	}
	var info struct {
		Meta metaGroup `json:"meta_cluster"`
	}
	if status != http.StatusOK {
		return metaGroup{}, fmt.Errorf("server %s: /jsz answers %d", p.name, status)
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return metaGroup{}, fmt.Errorf("server %s: /jsz: %w", p.name, err)
	}
	return info.Meta, nil
}
