package trialnode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// eventPage and maxEventPages limit the events that Evidence reads.
	eventPage, maxEventPages = 500, 4
	// maxEvents limits the events in the sentence.
	maxEvents = 3
)

// Evidence returns the most frequent Warning events of the node and of its pods. The message of an event proves nothing:
// any client may write events.
func (t *Observer) Evidence(ctx context.Context, node string) string {
	if node == "" {
		return ""
	}
	counts := map[string]int32{}
	options := metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning, Limit: eventPage}
	for range maxEventPages {
		list, err := t.Kube.CoreV1().Events(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return ". Warning events unread: " + brief(err.Error())
		}
		for i := range list.Items {
			if e := &list.Items[i]; isFrom(e, node) {
				counts[brief(fmt.Sprintf("%s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message))] += max(e.Count, 1)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	return sentenceOf(counts)
}

// isFrom reports whether the node's kubelet wrote the event, or the event is about the Node.
func isFrom(e *corev1.Event, node string) bool {
	return e.Source.Host == node || e.ReportingInstance == node || e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == node
}

func sentenceOf(counts map[string]int32) string {
	var texts []string
	for text := range counts {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(x, y string) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y)) })
	texts = texts[:min(len(texts), maxEvents)]
	for i, text := range texts {
		if counts[text] > 1 {
			texts[i] = fmt.Sprintf("%s (%d times)", text, counts[text])
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ". Warning events: " + strings.Join(texts, "; ")
}
