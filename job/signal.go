package job

// signal wakes one loop. Signals that are sent before the loop receives are merged into one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
