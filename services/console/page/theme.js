// Not a module: it runs before anything is painted, so that a page in the chosen theme never flashes in the other.
(() => {
  const KEY = 'console.theme';
  const CHOICES = ['auto', 'light', 'dark'];
  const stored = () => {
    try {
      const value = localStorage.getItem(KEY);
      return CHOICES.includes(value) ? value : 'auto';
    } catch {
      return 'auto';
    }
  };
  const apply = (choice) => { document.documentElement.dataset.theme = choice; };

  apply(stored());
  window.consoleTheme = {
    current: () => document.documentElement.dataset.theme,
    next() {
      const choice = CHOICES[(CHOICES.indexOf(this.current()) + 1) % CHOICES.length];
      apply(choice);
      try {
        localStorage.setItem(KEY, choice);
      } catch {
        // A browser that keeps nothing: the choice holds for this page.
      }
      return choice;
    },
  };
})();
