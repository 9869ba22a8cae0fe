package capture

// podNamespaceOf returns the namespace of the capture's pod and NodeOrder: the recorded namespace, else the configured one.
func podNamespaceOf(w *pass, configured string) string {
	if o := w.record.Order; o != nil && o.Namespace != "" {
		return o.Namespace
	}
	return configured
}
