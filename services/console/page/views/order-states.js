// How the states of an order are shown: level and sign.
export const ORDER_LEVELS = {
  created: ['wait', 'wait'],
  stock_reserved: ['wait', 'wait'],
  payment_in_flight: ['wait', 'wait'],
  payment_pending: ['wait', 'wait'],
  confirmed: ['ok', 'ok'],
  rejected: ['bad', 'bad'],
  cancelled: ['off', 'off'],
};
