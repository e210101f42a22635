/** How the states of a version are shown. */
export const VERSION_LEVELS = {
  draft: ['off', 'off'],
  canary: ['warn', 'half'],
  active: ['ok', 'ok'],
  superseded: ['off', 'off'],
  rolled_back: ['bad', 'back'],
};
