package nodejoin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/trial"
)

const (
	// likenessLife is how long the comparison of a node is valid, and likenessMemory how long the result is kept.
	likenessLife, likenessMemory = 4 * time.Minute, time.Hour
	// maxPeers limits the compared nodes, and maxDifferences the differences in a message.
	maxPeers, maxDifferences = 10, 3
)

// Peers compares new nodes of a pool with the pool's nodes of other images, as the trial's check Differences does. Peers reads
// only Nodes, one by one.
type Peers struct {
	Kube kubernetes.Interface
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	known map[string]likeness
}

// likeness is the result of a comparison; empty differences for an equal node.
type likeness struct {
	at          time.Time
	differences string
}

// Differences returns how nodes differ from all others, by node name. ignore lists accepted differences, as
// settings.trial.ignoreDifferences does. With fewer than two others there is no comparison.
func (p *Peers) Differences(ctx context.Context, pool cloud.PoolID, nodes, others, ignore []string) (map[string]string, error) {
	found, due := p.recall(nodes)
	if len(due) == 0 || len(others) < 2 {
		return found, nil
	}
	peers, err := p.peers(ctx, others)
	if err != nil || len(peers) < 2 {
		return found, err
	}
	server, err := p.Kube.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read the version of the API server: %w", err)
	}
	except := trial.Exceptions{Pool: strings.Split(string(pool), "/"), Ignored: ignore, Server: server.GitVersion}
	for _, name := range due {
		node, err := p.getNode(ctx, name)
		if err != nil {
			return nil, err
		}
		if node == nil || !nodestate.Ready(node) {
			continue
		}
		text := differencesOf(trial.Compare(trial.Peer{Node: node}, peers, except))
		if p.remember(name, text); text != "" {
			found[name] = text
		}
	}
	return found, nil
}

// recall returns the valid results, and the nodes without one.
func (p *Peers) recall(nodes []string) (found map[string]string, due []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	for name, l := range p.known {
		if now.Sub(l.at) > likenessMemory {
			delete(p.known, name)
		}
	}
	found = map[string]string{}
	for _, name := range nodes {
		l, is := p.known[name]
		switch {
		case !is || now.Sub(l.at) >= likenessLife:
			due = append(due, name)
		case l.differences != "":
			found[name] = l.differences
		}
	}
	return found, due
}

func (p *Peers) remember(node, differences string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[string]likeness{}
	}
	p.known[node] = likeness{p.Now(), differences}
}

// peers reads the first Ready nodes.
func (p *Peers) peers(ctx context.Context, names []string) (peers []trial.Peer, err error) {
	for _, name := range names[:min(len(names), maxPeers)] {
		node, err := p.getNode(ctx, name)
		if err != nil {
			return nil, err
		}
		if node != nil && nodestate.Ready(node) && node.DeletionTimestamp == nil {
			peers = append(peers, trial.Peer{Node: node})
		}
	}
	return peers, nil
}

// getNode reads a Node from the API server's cache; nil if there is none.
func (p *Peers) getNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := p.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return node, nil
}

// differencesOf are the first differences as text.
func differencesOf(c trial.Comparison) string {
	var texts []string
	for _, d := range c.Differences {
		texts = append(texts, d.Message)
	}
	if more := len(texts) - maxDifferences; more > 0 {
		texts = append(slices.Clone(texts[:maxDifferences]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
