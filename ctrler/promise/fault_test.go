package promise

// fault does at most one thing.
func (w *world) fault() {
	if i, j := w.rng.IntN(w.hosts), w.rng.IntN(w.hosts); i != j && w.chance(w.flaps) {
		w.cut[i][j] = w.rng.IntN(2) == 0
		w.cut[j][i] = w.cut[i][j]
	}
	if h := w.list[w.rng.IntN(len(w.list))]; w.chance(w.crashes) && h.up {
		w.crash(h)
	}
	if !w.chance(w.breaks) {
		return
	}
	h := w.list[w.rng.IntN(len(w.list))]
	switch n := w.rng.IntN(60); {
	case n < 10 && !h.up && h.starts < w.now:
		w.start(h)
	case n == 10 && w.wiped < w.wipes && h.starts < w.now:
		if h.up {
			w.crash(h)
		}
		w.wipe(h)
	case n == 11: // cut one host off, one or both ways
		for i := range w.list {
			if i != h.index {
				w.cut[h.index][i] = true
				w.cut[i][h.index] = w.rng.IntN(3) > 0
			}
		}
	case n == 12: // split
		for i := range w.list {
			for j := range w.list {
				w.cut[i][j] = (i <= h.index) != (j <= h.index)
			}
		}
	case n < 16:
		w.bridge()
	case n < 22:
		w.heal()
	}
}

// bridge cuts about half of all links, so that some hosts hear others that do not
// hear each other.
func (w *world) bridge() {
	for i := range w.list {
		for j := range i {
			w.cut[i][j] = w.rng.IntN(2) == 0
			w.cut[j][i] = w.cut[i][j]
		}
	}
}

func (w *world) heal() {
	for i := range w.cut {
		clear(w.cut[i])
	}
}
